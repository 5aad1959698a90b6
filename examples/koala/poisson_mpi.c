/* The solver of poisson.py by MPI, one world over all components of a gang:
 *
 *   mpicc -O2 -o poisson examples/koala/poisson_mpi.c -lm
 *   a job file with command = ["/shared/poisson", "48"], [[components]] and [gang] runner = "mpi"
 *
 * Red points change first, then black ones, so that an answer is the same to the last bit however many processes there
 * are. The last line tells it as a checksum, and how many networks the processes were in. */

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOLERANCE 1e-9
#define LOOK_EVERY 10
#define NAME 64

static double relax(double *u, int first, int rows, int n, int colour, double weight) {
    double step = 1.0 / (n + 1), pi = M_PI, most = 0.0;
    for (int k = 1; k <= rows; k++) {
        int i = first + k - 1;
        double *row = u + (size_t)k * (n + 2), *above = row - (n + 2), *below = row + (n + 2);
        for (int j = 1 + (i + colour) % 2; j <= n; j += 2) {
            double source = 2 * pi * pi * sin(pi * i * step) * sin(pi * j * step) * step * step;
            double move = weight * (0.25 * (above[j] + below[j] + row[j - 1] + row[j + 1] + source) - row[j]);
            row[j] += move;
            if (fabs(move) > most) most = fabs(move);
        }
    }
    return most;
}

int main(int argc, char **argv) {
    int rank, size, n = argc > 1 ? atoi(argv[1]) : 48;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (n < size) {
        fprintf(stderr, "poisson: %d processes for %d rows; want one row each at least\n", size, n);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int first = 1 + n * rank / size, last = n * (rank + 1) / size, rows = last - first + 1, width = n + 2;
    int before = rank ? rank - 1 : MPI_PROC_NULL, behind = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    double *u = calloc((size_t)(rows + 2) * width, sizeof(double)), *end = u + (size_t)rows * width;
    double weight = 2.0 / (1.0 + sin(M_PI / (n + 1))), most;
    int steps = 0;
    do {
        most = 0.0;
        for (int colour = 0; colour < 2; colour++) {
            MPI_Sendrecv(u + width, width, MPI_DOUBLE, before, 0, end + width, width, MPI_DOUBLE, behind, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Sendrecv(end, width, MPI_DOUBLE, behind, 1, u, width, MPI_DOUBLE, before, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            double move = relax(u, first, rows, n, colour, weight);
            if (move > most) most = move;
        }
        if (++steps % LOOK_EVERY == 0) MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    } while (steps % LOOK_EVERY || most >= TOLERANCE);

    char mine[NAME] = {0}, *names = rank ? NULL : calloc(size, NAME);
    if (readlink("/proc/self/ns/net", mine, NAME - 1) < 0) strcpy(mine, "?");
    MPI_Gather(mine, NAME, MPI_CHAR, names, NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    printf("process %d of %d: %d steps\n", rank, size, steps);
    int *counts = calloc(size, sizeof(int)), *at = calloc(size, sizeof(int));
    for (int r = 0; r < size; r++) {
        at[r] = n * r / size * width;
        counts[r] = n * (r + 1) / size * width - at[r];
    }
    double *all = rank ? NULL : calloc((size_t)n * width, sizeof(double));
    MPI_Gatherv(u + width, rows * width, MPI_DOUBLE, all, counts, at, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank) {
        uint64_t sum = 14695981039346656037u;
        for (size_t k = 0; k < (size_t)n * width * sizeof(double); k++) sum = (sum ^ ((unsigned char *)all)[k]) * 1099511628211u;
        int networks = 0;
        for (int r = 0; r < size; r++) {
            int known = 0;
            for (int other = 0; other < r; other++) known |= !strcmp(names + r * NAME, names + other * NAME);
            networks += !known;
        }
        printf("answer %016llx from %d networks\n", (unsigned long long)sum, networks);
    }
    MPI_Finalize();
    return 0;
}
