// The function of vmcompute.dll, which Wine lacks, that the kubelet calls for its statistics: there are no endpoints of containers. The text in
// C:\hns-answer is answered instead, so that a test decides what the host network service says.
#include <windows.h>
#include <objbase.h>
#include <stdio.h>

__declspec(dllexport) HRESULT WINAPI HNSCall(const wchar_t *method, const wchar_t *path, const wchar_t *request, wchar_t **answer) {
    char text[4096] = "{\"Success\":true,\"Error\":\"\",\"Output\":[]}";
    FILE *file = fopen("C:\\hns-answer", "rb");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
    }
    int length = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    *answer = CoTaskMemAlloc(length * sizeof(wchar_t));
    MultiByteToWideChar(CP_UTF8, 0, text, -1, *answer, length);
    return S_OK;
}
