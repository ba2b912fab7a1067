#include <stdlib.h>
#define N 64

static double sum_of(const double *a) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += a[i];
    return sum;
}

/* case no_from stale-copy */
double no_from(void) {
    double a[N], b[N], sum = 0;
    for (int i = 0; i < N; i++) a[i] = i, b[i] = 0;
#pragma omp target map(to : a, b) /* wrong */
#pragma omp target map(to : a) map(tofrom : b) /* right */
    for (int i = 0; i < N; i++)
        b[i] = 2 * a[i]; /* found */
    for (int i = 0; i < N; i++)
        sum += b[i]; /* found */
    return sum;
}

/* case no_to stale-copy */
double no_to(void) {
    double *a = malloc(N * sizeof *a);
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target teams distribute parallel for map(from : a[:N]) /* wrong */ /* found */
#pragma omp target teams distribute parallel for map(tofrom : a[:N]) /* right */
    for (int i = 0; i < N; i++)
        a[i] += 1; /* found */
    double last = a[N - 1];
    free(a);
    return last;
}

/* case no_update_to stale-copy */
double no_update_to(void) {
    double a[N], b[N];
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target data map(to : a) map(from : b)
    {
#pragma omp target parallel for
        for (int i = 0; i < N; i++)
            b[i] = a[i];
        for (int i = 0; i < N; i++)
            a[i] *= 2; /* found */
#pragma omp target update to(a) /* right */
#pragma omp target parallel for
        for (int i = 0; i < N; i++)
            b[i] += a[i]; /* found */
    }
    return sum_of(b);
}

/* case no_update_from stale-copy */
double no_update_from(void) {
    double *a = calloc(N, sizeof *a), norm = 0;
#pragma omp target data map(tofrom : a[0 : N])
    for (int step = 0; step < 3; step++) {
#pragma omp target teams distribute parallel for
        for (int i = 0; i < N; i++)
            a[i] += step; /* found */
#pragma omp target update from(a[0 : N]) /* right */
        for (int i = 0; i < N; i++)
            norm += a[i]; /* found */
    }
    free(a);
    return norm;
}

/* case update_of_a_part stale-copy */
double update_of_a_part(void) {
    double a[N], last;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target data map(tofrom : a)
    {
#pragma omp target
        for (int i = 0; i < N; i++)
            a[i] = -i; /* found */
#pragma omp target update from(a[0 : N - 1]) /* wrong */
#pragma omp target update from(a) /* right */
        last = a[0] +
               a[N - 1]; /* found */
    }
    return last;
}

/* case wrong_direction stale-copy */
double wrong_direction(void) {
    double a[N], s = 0;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target enter data map(to : a)
    for (int i = 0; i < N; i++)
        a[i] = 1; /* found */
#pragma omp target update from(a) /* wrong */
#pragma omp target update to(a) /* right */
#pragma omp target map(tofrom : s)
    for (int i = 0; i < N; i++)
        s += a[i]; /* found */
#pragma omp target exit data map(release : a)
    return s;
}

/* case entered_without_value stale-copy */
double entered_without_value(void) {
    double *a = malloc(N * sizeof *a), s = 0;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target enter data map(alloc : a[:N]) /* wrong */ /* found */
#pragma omp target enter data map(to : a[:N]) /* right */
#pragma omp target parallel for reduction(+ : s) map(tofrom : s)
    for (int i = 0; i < N; i++)
        s += a[i]; /* found */
#pragma omp target exit data map(delete : a[:N])
    free(a);
    return s;
}

/* case released stale-copy */
double released(void) {
    double *a = malloc(N * sizeof *a), s;
#pragma omp target enter data map(alloc : a[:N])
#pragma omp target parallel for
    for (int i = 0; i < N; i++)
        a[i] = i; /* found */
#pragma omp target exit data map(release : a[:N]) /* wrong */
#pragma omp target exit data map(from : a[:N]) /* right */
    s = a[3]; /* found */
    free(a);
    return s;
}

/* case counted stale-copy */
double counted(void) {
    double a[N], s;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target data map(to : a)
    {
#pragma omp target map(tofrom : a) /* wrong */
#pragma omp target map(always, tofrom : a) /* right */
        for (int i = 0; i < N; i++)
            a[i] += 1; /* found */
        s = a[5]; /* found */
    }
    return s;
}

/* case entered_twice stale-copy */
double entered_twice(void) {
    static double a[N]; /* it stays there */
    double s;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target enter data map(to : a)
#pragma omp target enter data map(to : a) /* wrong */
#pragma omp target
    a[7] = -1; /* found */
#pragma omp target exit data map(from : a)
    s = a[7]; /* found */
    return s;
}

/* case between_two_regions stale-copy */
double between_two_regions(void) {
    int a[N], found = 0;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target map(to : a) /* wrong */
#pragma omp target map(tofrom : a) /* right */
    a[9] = 0; /* found */
#pragma omp target map(to : a) map(tofrom : found)
    found = a[9]; /* found */
    return found;
}

/* case written_in_part stale-copy */
double written_in_part(void) {
    double a[N], s = 0;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target map(from : a) /* wrong */ /* found */
#pragma omp target map(tofrom : a) /* right */
    for (int i = 0; i < N / 2; i++)
        a[i] = 0;
    for (int i = 0; i < N; i++)
        s += a[i]; /* found */
    return s;
}

/* case lost_at_the_end stale-copy */
double lost_at_the_end(void) {
    double a[N], s = 0;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target data map(tofrom : a) /* wrong */
#pragma omp target data map(to : a) /* right */
    {
#pragma omp target map(tofrom : s)
        s = a[1];
        a[2] = s; /* found */
    }
    return a[2]; /* found */
}

#pragma omp declare target
double table[N];
static double looked_up(int i) {
    return table[i];
}
#pragma omp end declare target

/* case declared stale-copy */
double own_table[N];
#pragma omp declare target to(own_table)
double declared(void) {
    double s = 0;
    for (int i = 0; i < N; i++)
        own_table[i] = i; /* found */
#pragma omp target update to(own_table) /* right */
#pragma omp target map(tofrom : s)
    s += own_table[4]; /* found */
    return s;
}

/* case declared_and_called stale-copy */
double declared_and_called(void) {
    double s = 0;
    for (int i = 0; i < N; i++) table[i] = looked_up(i) + i;
#pragma omp target update to(table)
#pragma omp target map(tofrom : s)
    {
        table[1] = 4; /* found */
        s += looked_up(1);
    }
#pragma omp target update from(table) /* right */
    return s + table[1]; /* found */
}

struct field {
    int n;
    double *values;
};

/* case of_a_structure stale-copy */
double of_a_structure(void) {
    struct field f = {N, malloc(N * sizeof(double))};
    for (int i = 0; i < N; i++) f.values[i] = i;
#pragma omp target map(to : f.n, f.values[:N]) /* wrong */
#pragma omp target map(to : f.n) map(tofrom : f.values[:N]) /* right */
    for (int i = 0; i < f.n; i++)
        f.values[i] *= 3; /* found */
    double s = f.values[2]; /* found */
    free(f.values);
    return s;
}

/* case too_short remote-access */
double too_short(void) {
    double *a = malloc(N * sizeof *a), b[N];
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target parallel for map(to : a[:N - 1]) map(from : b) /* wrong */
#pragma omp target parallel for map(to : a[:N]) map(from : b) /* right */
    for (int i = 0; i < N; i++)
        b[i] = a[i]; /* found */
    free(a);
    return b[0];
}

/* case array_too_short remote-access */
double array_too_short(void) {
    float a[N] = {0}, *p = a;
#pragma omp target map(tofrom : p[0 : N / 2]) /* wrong */
#pragma omp target map(tofrom : p[0 : N]) /* right */
    for (int i = 0; i < N; i++)
        p[i] = i; /* found */
    return a[0];
}

static int global[N];

/* case global_too_short remote-access */
double global_too_short(void) {
    int *p = global, s = 0;
#pragma omp target map(to : p[1 : N - 1]) map(tofrom : s) /* wrong */
#pragma omp target map(to : p[0 : N]) map(tofrom : s) /* right */
    for (int i = 0; i < N; i++)
        s += p[i]; /* found */
    return s;
}

/* case beyond_its_block out-of-bounds */
double beyond_its_block(void) {
    double *a = calloc(N, sizeof *a), s = 0;
#pragma omp target map(to : a[:N + 8]) map(tofrom : s) /* wrong */ /* found */
#pragma omp target map(to : a[:N]) map(tofrom : s) /* right */
    for (int i = 0; i < N; i++) s += a[i];
    free(a);
    return s;
}

/* case grown remote-access */
double grown(void) {
    char a[N] = {0};
#pragma omp target data map(tofrom : a[0 : N / 2]) /* wrong */
#pragma omp target data map(tofrom : a) /* right */
    {
#pragma omp target map(tofrom : a) /* found */
        a[N / 2 - 1] = 1;
    }
    return a[0];
}

/* case not_waited_for data-race */
double not_waited_for(void) {
    double a[N], s;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target map(tofrom : a) nowait
    for (int i = 0; i < N; i++)
        a[i] = -i; /* found */
#pragma omp taskwait /* right */
    s = a[3]; /* found */
#pragma omp taskwait
    return s;
}

/* case sum_of_teams data-race */
int sum_of_teams(void) {
    int sum = 0;
#pragma omp target teams num_teams(4) map(tofrom : sum) /* wrong */
#pragma omp target teams num_teams(4) map(tofrom : sum) reduction(+ : sum) /* right */
    {
        sum++; /* found */
    }
    return sum;
}

/* case teams_do_not_wait data-race */
int teams_do_not_wait(void) {
    int a[N], b[N];
    for (int i = 0; i < N; i++) a[i] = i, b[i] = 0;
#pragma omp target map(tofrom : a, b)
#pragma omp teams num_teams(4)
    {
        int own[N]; /* each team's */
#pragma omp distribute
        for (int i = 0; i < N; i++) {
            a[i] += 1; /* found */
            own[i] = i;
        }
#pragma omp distribute
        for (int i = 0; i < N; i++)
            b[i] = a[N - 1 - i] + own[i]; /* wrong */ /* found */
            b[i] = i + own[i]; /* right */
    }
    return b[3];
}

/* case same_work_of_each_team data-race */
int same_work_of_each_team(void) {
    int a[N];
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target teams num_teams(3) map(tofrom : a)
#pragma omp parallel for /* wrong */
#pragma omp distribute parallel for /* right */
    for (int i = 0; i < N; i++)
        a[i] += 1; /* found */
    return a[3];
}

/* case written_beside data-race */
double written_beside(void) {
    double a[N], b[N];
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target map(to : a) map(from : b) nowait
    for (int i = 0; i < N; i++)
        b[i] = 2 * a[i]; /* found */
#pragma omp taskwait /* right */
    a[5] = 0; /* found */
#pragma omp taskwait
    return sum_of(b);
}

/* case two_beside data-race */
double two_beside(void) {
    double a[N];
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target teams distribute parallel for map(tofrom : a) nowait /* wrong */
#pragma omp target teams distribute parallel for map(tofrom : a) nowait depend(out : a) /* right */
    for (int i = 0; i < N; i++)
        a[i] += 1; /* found */
#pragma omp target teams distribute parallel for map(tofrom : a) nowait depend(inout : a)
    for (int i = 0; i < N; i++)
        a[i] *= 2; /* found */
#pragma omp taskwait
    return sum_of(a);
}

/* case halves_meet data-race */
double halves_meet(void) {
    double a[N];
    int half = N / 2, first = half;
    for (int i = 0; i < N; i++) a[i] = i;
    first++; /* wrong */
#pragma omp target map(tofrom : a) nowait
    for (int i = 0; i < first; i++)
        a[i] += 1; /* found */
#pragma omp target map(tofrom : a) nowait
    for (int i = half; i < N; i++)
        a[i] *= 2; /* found */
#pragma omp taskwait
    return sum_of(a);
}

/* case task_behind_target data-race */
double task_behind_target(void) {
    double a[N], s = 0;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp parallel
#pragma omp single
    {
#pragma omp target map(tofrom : a) nowait depend(out : a)
        for (int i = 0; i < N; i++)
            a[i] += 1; /* found */
#pragma omp task shared(a, s) /* wrong */
#pragma omp task shared(a, s) depend(in : a) /* right */
        s = a[3]; /* found */
    }
    return s;
}

/* case target_behind_task data-race */
double target_behind_task(void) {
    double a[N];
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task shared(a) depend(out : a)
        for (int i = 0; i < N; i++)
            a[i] += 1; /* found */
#pragma omp target map(tofrom : a) /* wrong */
#pragma omp target map(tofrom : a) depend(inout : a) /* right */
        for (int i = 0; i < N; i++)
            a[i] *= 2; /* found */
    }
    return sum_of(a);
}

/* case only_one_waited_for data-race */
double only_one_waited_for(void) {
    double a[N], b[N], s;
    for (int i = 0; i < N; i++) a[i] = b[i] = i;
#pragma omp target map(tofrom : a) nowait depend(out : a)
    for (int i = 0; i < N; i++)
        a[i] += 1; /* found */
#pragma omp target map(tofrom : b) nowait depend(out : b)
    for (int i = 0; i < N; i++)
        b[i] += 1;
#pragma omp taskwait depend(in : b) /* wrong */
#pragma omp taskwait depend(in : a) /* right */
    s = a[3]; /* found */
#pragma omp taskwait
    return s + b[3];
}

/* case not_grouped data-race */
double not_grouped(void) {
    double a[N], s;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp taskgroup /* right */
    {
#pragma omp target parallel for map(tofrom : a) nowait
        for (int i = 0; i < N; i++)
            a[i] += 1; /* found */
    }
    s = a[3]; /* found */
#pragma omp taskwait
    return s;
}

/* case loop_beside_target data-race */
double loop_beside_target(void) {
    double a[N], b[N];
    for (int i = 0; i < N; i++) a[i] = b[i] = i;
#pragma omp target map(tofrom : a) nowait
    for (int i = 0; i < N; i++)
        a[i] += 1; /* found */
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        b[i] *= 2;
#pragma omp taskwait /* right */
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        b[i] += a[i]; /* found */
#pragma omp taskwait
    return sum_of(b);
}

/* case exit_beside data-race */
double exit_beside(void) {
    double *a = calloc(N, sizeof *a), s;
#pragma omp target enter data map(to : a[:N])
#pragma omp target
    for (int i = 0; i < N; i++)
        a[i] += 1;
#pragma omp target exit data map(from : a[:N]) nowait /* found */
#pragma omp taskwait /* right */
    s = a[3]; /* found */
#pragma omp taskwait
    free(a);
    return s;
}

/* case enter_beside data-race */
double enter_beside(void) {
    double *a = calloc(N, sizeof *a), s;
#pragma omp target enter data map(to : a[:N]) nowait /* found */
#pragma omp taskwait /* right */
    a[3] = 1; /* found */
#pragma omp taskwait
#pragma omp target update to(a[:N])
#pragma omp target map(from : s)
    s = a[3];
#pragma omp target exit data map(delete : a[:N])
    free(a);
    return s;
}

/* case update_beside data-race */
double update_beside(void) {
    double *a = calloc(N, sizeof *a), s, t;
#pragma omp target enter data map(to : a[:N])
#pragma omp target
    for (int i = 0; i < N; i++)
        a[i] += 1;
#pragma omp target update from(a[:N]) nowait /* found */
#pragma omp target map(from : t)
    t = a[5]; /* the device's */
#pragma omp taskwait /* right */
    s = a[3]; /* found */
#pragma omp taskwait
#pragma omp target exit data map(delete : a[:N])
    free(a);
    return s + t;
}

/* case pipeline_not_waited_for data-race */
double pipeline_not_waited_for(void) {
    static double a[4][N];
    double *p = &a[0][0], s;
    for (int k = 0; k < 4; k++) {
#pragma omp target enter data map(to : p[k * N : N]) nowait depend(out : p[k * N])
#pragma omp target teams distribute parallel for nowait depend(inout : p[k * N])
        for (int i = 0; i < N; i++)
            p[k * N + i] = i + k;
#pragma omp target exit data map(from : p[k * N : N]) nowait depend(inout : p[k * N]) /* found */
    }
#pragma omp taskwait /* right */
    s = a[2][3]; /* found */
#pragma omp taskwait
    return s;
}

/* case critical_of_teams data-race */
int critical_of_teams(void) {
    int sum = 0;
#pragma omp target teams num_teams(2) map(tofrom : sum) /* wrong */
#pragma omp target teams num_teams(1) map(tofrom : sum) /* right */
#pragma omp distribute parallel for
    for (int i = 0; i < 60; i++) {
#pragma omp critical
        sum++; /* found */
    }
    return sum;
}

/* case named_critical_of_teams data-race */
int named_critical_of_teams(void) {
    int sum = 0;
#pragma omp target teams num_teams(3) map(tofrom : sum)
#pragma omp distribute parallel for
    for (int i = 0; i < 60; i++) {
#pragma omp critical(sums) /* wrong */
#pragma omp atomic         /* right */
        sum++; /* found */
    }
    return sum;
}
