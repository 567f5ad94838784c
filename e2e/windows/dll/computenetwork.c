// The functions of computenetwork.dll, which Wine lacks, by which containerd makes and removes the network namespace of a pod: there is
// always the same one, and answers.h says how a function fails.
#include "answers.h"

#define EXPORT __declspec(dllexport) HRESULT WINAPI
#define NAMESPACE "7ea2ebb8-5c2f-4c93-a6b3-1d8f2c1f4a11"

static HRESULT opened(const char *function, HANDLE *handle, wchar_t **error) {
    *handle = (HANDLE)1;
    return answer(function, error);
}

static HRESULT described(const char *function, const char *text, wchar_t **described, wchar_t **error) {
    HRESULT result = answer(function, error);
    if (SUCCEEDED(result)) *described = text_of(text);
    return result;
}

EXPORT HcnCreateNamespace(const GUID *id, const wchar_t *settings, HANDLE *handle, wchar_t **error) {
    return opened("HcnCreateNamespace", handle, error);
}

EXPORT HcnOpenNamespace(const GUID *id, HANDLE *handle, wchar_t **error) {
    return opened("HcnOpenNamespace", handle, error);
}

EXPORT HcnEnumerateNamespaces(const wchar_t *query, wchar_t **namespaces, wchar_t **error) {
    return described("HcnEnumerateNamespaces", "[\"" NAMESPACE "\"]", namespaces, error);
}

EXPORT HcnQueryNamespaceProperties(HANDLE namespace, const wchar_t *query, wchar_t **properties, wchar_t **error) {
    return described("HcnQueryNamespaceProperties", "{\"ID\": \"" NAMESPACE "\"}", properties, error);
}

EXPORT HcnDeleteNamespace(const GUID *id, wchar_t **error) { return answer("HcnDeleteNamespace", error); }

EXPORT HcnCloseNamespace(HANDLE namespace) { return answer("HcnCloseNamespace", NULL); }
