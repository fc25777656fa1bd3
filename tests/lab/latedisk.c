/* LD_PRELOAD of an OSD: its disk is late. Each fdatasync, with which BlueStore ends a write, takes as many milliseconds
 * more as stand in the file LATE_DISK.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    const char *name = getenv("LATE_DISK");
    FILE *told = name ? fopen(name, "re") : NULL;
    int milliseconds = 0;
    if (told) {
        if (fscanf(told, "%d", &milliseconds) != 1) milliseconds = 0;
        fclose(told);
    }
    usleep(milliseconds * 1000);
    return real(file);
}
