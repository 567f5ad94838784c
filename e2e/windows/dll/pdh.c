// The functions of pdh.dll by which the kubelet measures a node. Wine's pdh.dll does not have the counters that it reads.
#include <windows.h>

#define PDH_MORE_DATA 0x800007D2

enum { PROCESSOR_TIME = 1, WORKING_SET, COMMITTED, OTHER };

typedef struct {
    DWORD status;
    double value;
} Value;

typedef struct {
    const wchar_t *instance;
    Value value;
} Item;

static HANDLE counter_of(const wchar_t *path) {
    if (wcsstr(path, L"Processor Time")) return (HANDLE)PROCESSOR_TIME;
    if (wcsstr(path, L"Working Set")) return (HANDLE)WORKING_SET;
    if (wcsstr(path, L"Committed")) return (HANDLE)COMMITTED;
    return (HANDLE)OTHER;
}

static double memory_in_use(void) {
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    GlobalMemoryStatusEx(&memory);
    return (double)(memory.ullTotalPhys - memory.ullAvailPhys);
}

static double value_of(HANDLE counter) {
    switch ((INT_PTR)counter) {
    case PROCESSOR_TIME: return 5;
    case WORKING_SET:
    case COMMITTED: return memory_in_use();
    default: return 0;
    }
}

__declspec(dllexport) LONG WINAPI PdhOpenQuery(const wchar_t *source, DWORD_PTR data, HANDLE *query) {
    *query = (HANDLE)1;
    return 0;
}

__declspec(dllexport) LONG WINAPI PdhOpenQueryW(const wchar_t *source, DWORD_PTR data, HANDLE *query) {
    return PdhOpenQuery(source, data, query);
}

__declspec(dllexport) LONG WINAPI PdhAddCounterW(HANDLE query, const wchar_t *path, DWORD_PTR data, HANDLE *counter) {
    *counter = counter_of(path);
    return 0;
}

__declspec(dllexport) LONG WINAPI PdhAddEnglishCounterW(HANDLE query, const wchar_t *path, DWORD_PTR data, HANDLE *counter) {
    return PdhAddCounterW(query, path, data, counter);
}

__declspec(dllexport) LONG WINAPI PdhCollectQueryData(HANDLE query) { return 0; }

__declspec(dllexport) LONG WINAPI PdhCloseQuery(HANDLE query) { return 0; }

__declspec(dllexport) LONG WINAPI PdhValidatePathW(const wchar_t *path) { return 0; }

__declspec(dllexport) LONG WINAPI PdhGetFormattedCounterValue(HANDLE counter, DWORD format, DWORD *kind, Value *value) {
    value->status = 0;
    value->value = value_of(counter);
    return 0;
}

__declspec(dllexport) LONG WINAPI PdhGetFormattedCounterArrayW(HANDLE counter, DWORD format, DWORD *size, DWORD *count, Item *items) {
    DWORD needed = sizeof *items;
    LONG result = *size < needed ? (LONG)PDH_MORE_DATA : 0;
    *size = needed;
    *count = 1;
    if (result == 0) *items = (Item){L"_Total", {0, value_of(counter)}};
    return result;
}
