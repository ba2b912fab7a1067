/* Steps of heat in tiles of 16 x 16 with a simd loop in each row, as Rodinia's hotspot has them: short loops of lanes. */
#include <stdio.h>
#include <stdlib.h>

#define N 512
#define TILE 16

int main(int argc, char **argv) {
    int steps = atoi(argv[argc - 1]), tiles = N / TILE;
    float *t = calloc(N * N, sizeof *t), *r = calloc(N * N, sizeof *r);
    for (int i = 0; i < N * N; i++) t[i] = r[i] = i % 17;
    for (int step = 0; step < steps; step++) {
#pragma omp parallel for schedule(static)
        for (int tile = 0; tile < tiles * tiles; tile++) {
            int row = tile / tiles * TILE, column = tile % tiles * TILE;
            if (!row || !column || row + TILE == N || column + TILE == N) continue;
            for (int i = row; i < row + TILE; i++) {
#pragma omp simd
                for (int j = column; j < column + TILE; j++)
                    r[i * N + j] = t[i * N + j] + 0.1f * (t[(i + 1) * N + j] + t[(i - 1) * N + j] + t[i * N + j + 1] +
                                                          t[i * N + j - 1] - 4 * t[i * N + j]);
            }
        }
        float *other = t;
        t = r;
        r = other;
    }
    printf("%g\n", t[N * N / 2 + N / 2]);
    free(t), free(r);
    return 0;
}
