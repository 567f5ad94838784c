// The function of vmcompute.dll, which Wine lacks, that the kubelet calls for its statistics: there are no endpoints of containers.
#include <windows.h>
#include <objbase.h>

__declspec(dllexport) HRESULT WINAPI HNSCall(const wchar_t *method, const wchar_t *path, const wchar_t *request, wchar_t **answer) {
    static const wchar_t text[] = L"{\"Success\":true,\"Error\":\"\",\"Output\":[]}";
    *answer = CoTaskMemAlloc(sizeof text);
    CopyMemory(*answer, text, sizeof text);
    return S_OK;
}
