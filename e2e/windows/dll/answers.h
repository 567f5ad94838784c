// What the stand-ins for libraries of the host compute services answer. C:\answers.txt has a line for each function that does not
// succeed, or whose text counts: its name, its HRESULT in hexadecimal, and optionally the text that it returns.
#include <stdio.h>
#include <string.h>
#include <windows.h>
#include <objbase.h>

// A text for a caller that frees it. Texts have only characters of ASCII.
static wchar_t *text_of(const char *text) {
    size_t length = strlen(text) + 1;
    wchar_t *copy = CoTaskMemAlloc(length * sizeof *copy);
    for (size_t i = 0; i < length; i++) copy[i] = (unsigned char)text[i];
    return copy;
}

// The result of a function, and its text, if the file has one.
static HRESULT answer(const char *function, wchar_t **text) {
    char line[1024], name[64];
    unsigned result = S_OK;
    int end = 0;
    FILE *file = fopen("C:\\answers.txt", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %x %n", name, &result, &end) < 2 || strcmp(name, function) != 0) {
            result = S_OK;
            continue;
        }
        line[strcspn(line, "\r\n")] = 0;
        if (text && line[end]) *text = text_of(line + end);
        break;
    }
    if (file) fclose(file);
    return (HRESULT)result;
}
