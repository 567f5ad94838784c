// The functions of vmcompute.dll, which Wine lacks, by which the kubelet reads its statistics and containerd unpacks images: there are no
// endpoints of containers, layers are as they were unpacked, and answers.h says how a function fails.
#include "answers.h"

#define EXPORT __declspec(dllexport) HRESULT WINAPI
#define SUCCEEDS(function) \
    EXPORT function(void) { return answer(#function, NULL); }

EXPORT HNSCall(const wchar_t *method, const wchar_t *path, const wchar_t *request, wchar_t **text) {
    HRESULT result = answer("HNSCall", text);
    if (SUCCEEDED(result) && !*text) *text = text_of("{\"Success\":true,\"Error\":\"\",\"Output\":[]}");
    return result;
}

// A base layer has the empty disk of which containers get copies.
EXPORT ProcessBaseImage(const wchar_t *path) {
    wchar_t disk[MAX_PATH];
    _snwprintf(disk, MAX_PATH, L"%ls\\blank.vhdx", path);
    CloseHandle(CreateFileW(disk, GENERIC_WRITE, 0, NULL, OPEN_ALWAYS, 0, NULL));
    return answer("ProcessBaseImage", NULL);
}

SUCCEEDS(DestroyLayer)
SUCCEEDS(ImportLayer)
SUCCEEDS(NameToGuid)
