/* The process of a sandbox, which keeps its namespaces. */
#include <unistd.h>

int main(void) {
    for (;;)
        pause();
}
