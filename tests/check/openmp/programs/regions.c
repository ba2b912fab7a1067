#include <stdlib.h>
#include <omp.h>
#define N 64

/* case shared_scalar data-race */
void shared_scalar(void) {
    int x = 0;
#pragma omp parallel
    {
        x = x + 1; /* wrong */ /* found */
#pragma omp atomic /* right */
        x++; /* right */
    }
}

/* case thread_number data-race */
void thread_number(void) {
    static int a[1024];
    int me; /* wrong */
#pragma omp parallel
    {
        int me; /* right */
        me = omp_get_thread_num(); /* found */
        a[me] = me;
    }
}

/* case master data-race */
void master(void) {
    int set = 0;
    static int a[1024];
#pragma omp parallel
    {
#pragma omp master
        set = 1; /* found */
#pragma omp barrier /* right */
        a[omp_get_thread_num()] = set; /* found */
    }
}

/* case masked data-race */
void masked(void) {
    int set = 0;
#pragma omp parallel
    {
#pragma omp masked /* right */
        set = 1; /* found */
    }
}

/* case single_nowait data-race */
void single_nowait(void) {
    int set = 0;
    static int a[1024];
#pragma omp parallel
    {
#pragma omp single nowait /* wrong */
#pragma omp single /* right */
        set = 1; /* found */
        a[omp_get_thread_num()] = set; /* found */
    }
}

/* case sections data-race */
void sections(void) {
    int x = 0, y = 0;
#pragma omp parallel sections
    {
#pragma omp section
        x = 1; /* found */
#pragma omp section
        x = 2; /* wrong */ /* found */
        y = 2; /* right */
    }
    x += y;
}

/* case two_names data-race */
void two_names(void) {
    int x = 0;
#pragma omp parallel
    {
#pragma omp critical(one)
        x++; /* found */
#pragma omp critical(two) /* wrong */
#pragma omp critical(one) /* right */
        x--; /* found */
    }
}

/* case atomic_read_missing data-race */
void atomic_read_missing(void) {
    int x = 0;
    static int a[N];
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
#pragma omp atomic
        x++; /* found */
#pragma omp atomic read /* right */
        a[i] = x; /* found */
    }
}

/* case capture data-race */
void capture(void) {
    int n = 0;
    static int a[N];
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        int at;
#pragma omp atomic capture /* right */
        at = n++; /* found */
        a[at % N] = i; /* wrong */
        a[i] = at; /* right */
    }
}

/* case lock_of_half data-race */
void lock_of_half(void) {
    int x = 0;
    omp_lock_t lock;
    omp_init_lock(&lock);
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        if (i % 2) omp_set_lock(&lock); /* wrong */
        omp_set_lock(&lock); /* right */
        x += i; /* found */
        if (i % 2) omp_unset_lock(&lock); /* wrong */
        omp_unset_lock(&lock); /* right */
    }
    omp_destroy_lock(&lock);
}

/* case nested_lock data-race */
void nested_lock(void) {
    int x = 0;
    omp_nest_lock_t lock;
    omp_init_nest_lock(&lock);
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        omp_set_nest_lock(&lock);
        omp_set_nest_lock(&lock);
        omp_unset_nest_lock(&lock);
        omp_unset_nest_lock(&lock); /* wrong */
        x += i; /* found */
        omp_unset_nest_lock(&lock); /* right */
    }
    omp_destroy_nest_lock(&lock);
}

/* case thread_private data-race */
static int thread_private_count;
#pragma omp threadprivate(thread_private_count) /* right */
void thread_private(void) {
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        thread_private_count++; /* found */
}

/* case copied_in data-race */
static int copied_in_base = 3;
#pragma omp threadprivate(copied_in_base)
void copied_in(void) {
    static int a[1024];
    int last = 0;
#pragma omp parallel copyin(copied_in_base)
    {
        a[omp_get_thread_num()] = copied_in_base;
        last = copied_in_base; /* wrong */ /* found */
#pragma omp single copyprivate(copied_in_base) /* right */
        copied_in_base = last; /* right */
    }
}

/* case nested_regions data-race */
void nested_regions(void) {
    static int a[N];
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < 8; i++) {
        int s = 0;
#pragma omp parallel for /* wrong */
#pragma omp parallel for reduction(+ : s) /* right */
        for (int j = 0; j < 8; j++)
            s += j; /* found */
        a[i] = s;
    }
}

/* case published data-race */
void published(void) {
    int data = 0, ready = 0, seen = 0;
#pragma omp parallel sections
    {
#pragma omp section
        {
            data = 42; /* found */
#pragma omp atomic write release /* right */
            ready = 1; /* right */
#pragma omp atomic write relaxed /* wrong */
            ready = 1; /* wrong */
        }
#pragma omp section
        {
            int is = 0;
            while (!is) {
#pragma omp atomic read acquire
                is = ready;
            }
            seen = data; /* found */
        }
    }
    data = seen;
}

/* case flush_missing data-race */
void flush_missing(void) {
    int data = 0, ready = 0, seen = 0;
#pragma omp parallel sections
    {
#pragma omp section
        {
            data = 42; /* found */
#pragma omp flush /* right */
#pragma omp atomic write
            ready = 1;
        }
#pragma omp section
        {
            int is = 0;
            while (!is) {
#pragma omp atomic read
                is = ready;
            }
#pragma omp flush /* right */
            seen = data; /* found */
        }
    }
    data = seen;
}

/* case barrier_missing data-race */
void barrier_missing(void) {
    static double a[1024], b[1024];
#pragma omp parallel num_threads(4)
    {
        int me = omp_get_thread_num();
        a[me] = me; /* found */
#pragma omp barrier /* right */
        b[me] = a[(me + 1) % 4]; /* found */
    }
}

/* case cancelled data-race */
void cancelled(void) {
    static int a[N];
    int at = -1;
    for (int i = 0; i < N; i++) a[i] = i % 8 == 5;
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        if (a[i]) {
#pragma omp atomic write /* right */
            at = i; /* found */
#pragma omp cancel for
        }
    }
    a[0] = at;
}

/* case teams data-race */
void teams(void) {
    static int a[N];
    int s = 0;
#pragma omp target teams distribute parallel for map(tofrom : a, s) /* wrong */
#pragma omp target teams distribute parallel for map(tofrom : a, s) reduction(+ : s) /* right */
    for (int i = 0; i < N; i++)
        s += a[i]; /* found */
}

/* case target_loop data-race */
void target_loop(void) {
    static int a[N + 1], b[N + 1];
#pragma omp target map(tofrom : a) map(to : b)
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        a[i] = a[i + 1]; /* wrong */ /* found */
        a[i] = b[i + 1]; /* right */
}

/* case barrier_in_a_branch missed-barrier */
void barrier_in_a_branch(void) {
    static int a[1024];
#pragma omp parallel /* found */
    {
        int me = omp_get_thread_num();
        if (me == 0) { /* wrong */
            a[me] = 1; /* wrong */
#pragma omp barrier /* found */
        } /* wrong */
    }
}

/* case two_barriers missed-barrier */
void two_barriers(void) {
#pragma omp parallel
    {
        if (omp_get_thread_num() % 2) { /* wrong */
#pragma omp barrier /* wrong */ /* found */
        } else { /* wrong */
#pragma omp barrier /* found */
        } /* wrong */
    }
}

/* case loop_in_a_branch missed-barrier */
void loop_in_a_branch(void) {
    static int a[N];
#pragma omp parallel /* found */
    {
        if (omp_get_thread_num() < 1) { /* wrong */
#pragma omp for /* found */
            for (int i = 0; i < N; i++)
                a[i] = i;
        } /* wrong */
    }
}

/* case two_orders potential-deadlock */
void two_orders(void) {
    omp_lock_t one, two;
    omp_init_lock(&one);
    omp_init_lock(&two);
    int x = 0;
#pragma omp parallel sections
    {
#pragma omp section
        {
            omp_set_lock(&one);
            omp_set_lock(&two); /* found */
            x++;
            omp_unset_lock(&two);
            omp_unset_lock(&one);
        }
#pragma omp section
        {
            omp_set_lock(&two); /* wrong */
            omp_set_lock(&one); /* found */
            omp_set_lock(&two); /* right */
            x--;
            omp_unset_lock(&one);
            omp_unset_lock(&two);
        }
    }
}

/* case criticals_within potential-deadlock */
void criticals_within(void) {
    int x = 0, y = 0;
#pragma omp parallel sections
    {
#pragma omp section
        {
#pragma omp critical(first)
            {
                x++;
#pragma omp critical(second) /* found */
                y++;
            }
        }
#pragma omp section
        {
#pragma omp critical(second)
            {
                y--;
#pragma omp critical(first) /* wrong */ /* found */
                x++; /* wrong */
            }
        }
    }
}

/* case flag_under_a_lock data-race */
void flag_under_a_lock(void) {
    int data = 0, ready = 0, seen = 0;
#pragma omp parallel sections
    {
#pragma omp section
        {
            data = 42; /* right */
#pragma omp critical
            ready = 1;
            data = 42; /* wrong */ /* found */
        }
#pragma omp section
        {
            int is = 0;
            while (!is) {
#pragma omp critical
                is = ready;
            }
            seen = data; /* found */
        }
    }
    data = seen + (ready == 7);
}

/* case region_without_value uninitialised-read */
void region_without_value(void) {
    static int a[1024];
    int t = 7;
#pragma omp parallel private(t)
    {
        t = 7; /* right */
        if (t == 7) /* found */
            a[omp_get_thread_num()] = 1;
    }
}

/* case locks_in_a_circle potential-deadlock */
static void take_two(omp_lock_t *locks, int first, int second) {
    omp_set_lock(&locks[first]);
    omp_set_lock(&locks[second]); /* found */
    omp_unset_lock(&locks[second]);
    omp_unset_lock(&locks[first]);
}
void locks_in_a_circle(void) {
    omp_lock_t locks[5];
    for (int i = 0; i < 5; i++) omp_init_lock(&locks[i]);
#pragma omp parallel for
    for (int i = 0; i < 5; i++)
        take_two(locks, i, (i + 1) % 5); /* wrong */
        take_two(locks, i < 4 ? i : 0, i < 4 ? i + 1 : 4); /* right */
}

/* case a_circle_of_three_sections potential-deadlock */
void a_circle_of_three_sections(void) {
    static int n;
    omp_lock_t a, b, c;
    omp_init_lock(&a), omp_init_lock(&b), omp_init_lock(&c);
#pragma omp parallel sections
    {
#pragma omp section
        {
            omp_set_lock(&a);
            omp_set_lock(&b); /* found */
            n++;
            omp_unset_lock(&b), omp_unset_lock(&a);
        }
#pragma omp section
        {
            omp_set_lock(&b);
            omp_set_lock(&c);
            omp_unset_lock(&c), omp_unset_lock(&b);
        }
#pragma omp section
        {
            omp_set_lock(&c); /* wrong */
            omp_set_lock(&a); /* wrong */ /* found */
            omp_set_lock(&a); /* right */
            omp_set_lock(&c); /* right */
            omp_unset_lock(&a), omp_unset_lock(&c);
        }
    }
}

/* case a_circle_within_another_lock potential-deadlock */
void a_circle_within_another_lock(void) {
    static omp_lock_t locks[3];
    for (int i = 0; i < 3; i++) omp_init_lock(&locks[i]);
#pragma omp parallel for
    for (int i = 0; i < 3; i++) {
#pragma omp critical(all) /* right */
        {
            omp_set_lock(&locks[i]);
            omp_set_lock(&locks[(i + 1) % 3]); /* found */
            omp_unset_lock(&locks[(i + 1) % 3]), omp_unset_lock(&locks[i]);
        }
    }
}
