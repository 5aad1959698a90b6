/* diana_report.h: a job's word on how far it is, for the [contract] of its job file (SPEC G5). One file, C89 and later,
 * POSIX; C++ takes it as well. `diana report --header` prints it.
 *
 *     #include "diana_report.h"
 *     ...
 *     diana_report(step, steps);
 *
 * As often as one likes: the newest counts, and one a second is read. Fortran and others put a file with the text
 * DONE/TOTAL in place of the one that DIANA_REPORT names, as this does.
 */
#ifndef DIANA_REPORT_H
#define DIANA_REPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __GNUC__
#define DIANA_MAY_BE_UNUSED __attribute__((unused))
#else
#define DIANA_MAY_BE_UNUSED
#endif

/* Say that `done` of `total` steps are done. Returns 1 if it was said; 0 if nobody wants to know, since the job file has
 * no [contract], or if the report could not be written. Errors are never fatal. */
DIANA_MAY_BE_UNUSED static int diana_report(double done, double total)
{
    const char *path = getenv("DIANA_REPORT");
    char text[64];
    char *spare, *at;
    FILE *file;
    int said;

    if (path == NULL || *path == '\0')
        return 0;
    spare = (char *)malloc(strlen(path) + 32);
    if (spare == NULL)
        return 0;
    /* Another name first: half a report is never read. */
    sprintf(spare, "%s.%ld", path, (long)getpid());
    file = fopen(spare, "w");
    if (file == NULL) {
        free(spare);
        return 0;
    }
    sprintf(text, "%.17g/%.17g\n", done, total);
    /* A program may have set a locale whose point is a comma. */
    for (at = text; *at; at++)
        if (*at == ',')
            *at = '.';
    said = fputs(text, file) >= 0;
    said = fclose(file) == 0 && said;
    said = said && rename(spare, path) == 0;
    if (!said)
        remove(spare);
    free(spare);
    return said;
}

/* True (not 0) if the job goes on from a checkpoint: its files lie where it saved them. */
DIANA_MAY_BE_UNUSED static int diana_restarted(void)
{
    const char *name = getenv("DIANA_CHECKPOINT");

    return name != NULL && *name != '\0';
}

/* Exit code of a job that saved its state after it was asked to, and stops. */
#define DIANA_SAVED 85

#endif
