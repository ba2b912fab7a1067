#include <stdlib.h>
#include <omp.h>
#define N 32

/* case two_tasks data-race */
void two_tasks(void) {
    int x = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task shared(x)
        x = 1; /* found */
#pragma omp taskwait /* right */
#pragma omp task shared(x)
        x = 2; /* found */
    }
}

/* case taskwait_missing data-race */
void taskwait_missing(void) {
    int x = 0, y = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task shared(x)
        x = 1; /* found */
#pragma omp taskwait /* right */
        y = x; /* found */
    }
    x = y;
}

/* case fibonacci data-race */
static int fibonacci_of(int n) {
    int a, b;
    if (n < 2) return n;
#pragma omp task shared(a)
    a = fibonacci_of(n - 1); /* found */
#pragma omp task shared(b) /* right */
    b = fibonacci_of(n - 2);
#pragma omp taskwait /* right */
    return a + b; /* found */
}
void fibonacci(void) {
#pragma omp parallel
#pragma omp single
    fibonacci_of(6);
}

/* case grandchild data-race */
void grandchild(void) {
    int x = 0, y = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskgroup /* right */
        {
#pragma omp task shared(x)
            {
#pragma omp task shared(x)
                x = 1; /* found */
            }
        }
#pragma omp taskwait
        y = x; /* found */
    }
    x = y;
}

/* case depend_missing data-race */
void depend_missing(void) {
    int x = 0, y = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task shared(x) depend(out : x)
        x = 1; /* found */
#pragma omp task shared(x, y) depend(out : y) /* wrong */
#pragma omp task shared(x, y) depend(in : x) depend(out : y) /* right */
        y = x; /* found */
    }
}

/* case chain data-race */
void chain(void) {
    static int a[N];
#pragma omp parallel
#pragma omp single
    for (int i = 1; i < N; i++) {
#pragma omp task depend(out : a[i]) firstprivate(i) /* wrong */
#pragma omp task depend(in : a[i - 1]) depend(out : a[i]) firstprivate(i) /* right */
        a[i] = a[i - 1] + 1; /* found */
    }
}

/* case one_after_another data-race */
void one_after_another(void) {
    int x = 0;
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 4; i++) {
#pragma omp task shared(x) depend(in : x) /* wrong */
#pragma omp task shared(x) depend(mutexinoutset : x) /* right */
        x += 1; /* found */
    }
}

/* case loop_of_tasks data-race */
void loop_of_tasks(void) {
    static int a[N + 1], b[N + 1];
#pragma omp parallel
#pragma omp single
#pragma omp taskloop
    for (int i = 0; i < N; i++)
        a[i] = a[i + 1]; /* wrong */ /* found */
        a[i] = b[i + 1]; /* right */
}

/* case nogroup data-race */
void nogroup(void) {
    static int a[N];
    int s = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskloop nogroup /* wrong */
#pragma omp taskloop /* right */
        for (int i = 0; i < N; i++)
            a[i] = i; /* found */
        s = a[3]; /* found */
    }
    a[0] = s;
}

/* case sum_of_tasks data-race */
void sum_of_tasks(void) {
    int s = 0;
#pragma omp parallel
#pragma omp single
#pragma omp taskgroup task_reduction(+ : s)
    for (int i = 0; i < N; i++) {
#pragma omp task shared(s) /* wrong */
#pragma omp task in_reduction(+ : s) /* right */
        s += i; /* found */
    }
}

/* case loop_sum data-race */
void loop_sum(void) {
    int s = 0;
#pragma omp parallel
#pragma omp single
#pragma omp taskloop shared(s) /* wrong */
#pragma omp taskloop reduction(+ : s) /* right */
    for (int i = 0; i < N; i++)
        s += i; /* found */
}

/* case shared_by_mistake data-race */
void shared_by_mistake(void) {
    static int a[N];
#pragma omp parallel
#pragma omp single
    {
        static int at;
        for (at = 0; at < N; at++) { /* found */
#pragma omp task shared(at) /* wrong */
#pragma omp task firstprivate(at) /* right */
            a[at % N] = 1; /* found */
        }
#pragma omp taskwait
    }
}

/* case undeferred data-race */
void undeferred(void) {
    int x = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task shared(x) /* wrong */
#pragma omp task shared(x) if (0) /* right */
        x = 1; /* found */
        x += 1; /* found */
    }
}

/* case tree data-race */
struct tree {
    struct tree *left, *right;
    int value;
};
static struct tree *tree_of(int depth) {
    struct tree *t = calloc(1, sizeof *t);
    if (depth) t->left = tree_of(depth - 1), t->right = tree_of(depth - 1);
    return t;
}
static int tree_count;
static void tree_walk(struct tree *t) {
    if (!t) return;
#pragma omp task
    tree_walk(t->left);
#pragma omp task
    tree_walk(t->right);
    t->value = 1;
#pragma omp atomic /* right */
    tree_count++; /* found */
}
void tree(void) {
    struct tree *t = tree_of(4);
#pragma omp parallel
#pragma omp single
    tree_walk(t);
}

/* case merge_sort data-race */
static void merge_sort_part(int *a, int *b, int n) {
    if (n < 2) return;
    int half = n / 2, i = 0, j = half;
#pragma omp task
    merge_sort_part(a, b, half);
#pragma omp task
    merge_sort_part(a + half, b + half, n - half);
#pragma omp taskwait /* right */
    for (int k = 0; k < n; k++)
        b[k] = j == n || (i < half && a[i] < a[j]) ? a[i++] : a[j++]; /* found */
    for (int k = 0; k < n; k++)
        a[k] = b[k]; /* found */
}
void merge_sort(void) {
    static int a[2 * N], b[2 * N];
    for (int i = 0; i < 2 * N; i++) a[i] = i * 37 % (2 * N);
#pragma omp parallel
#pragma omp single
    merge_sort_part(a, b, 2 * N);
}

/* case task_without_value uninitialised-read */
void task_without_value(void) {
    static int a[N];
    int t = 7;
#pragma omp parallel
#pragma omp single
#pragma omp task private(t) /* wrong */
#pragma omp task firstprivate(t) /* right */
    {
        a[3] = t; /* found */
    }
}

/* case all_memory data-race */
void all_memory(void) {
    int a = 0, b = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task shared(a) depend(out : a)
        a = 1; /* found */
#pragma omp task shared(b) depend(out : b)
        b = 1;
#pragma omp task shared(a, b) depend(inout : b) /* wrong */
#pragma omp task shared(a, b) depend(inout : omp_all_memory) /* right */
        a += b; /* found */
#pragma omp task shared(b) depend(in : b)
        b += 1;
    }
}

/* case scalar_changed_behind_its_task data-race */
int scalar_changed_behind_its_task(void) {
    int x = 1, y = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task shared(x, y) /* wrong */
#pragma omp task shared(y) firstprivate(x) /* right */
        y = x; /* found */
        x = 2; /* found */
    }
    return x + y;
}

/* case scalar_shared_without_a_word data-race */
int scalar_shared_without_a_word(void) {
    int counts[N], x = 1;
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < N; i++) {
#pragma omp task
        counts[i] = x; /* found */
#pragma omp taskwait /* right */
        x++; /* found */
    }
    return counts[3];
}

/* case fulfilled_too_early data-race */
int fulfilled_too_early(void) {
    int x = 0, seen = 0;
    omp_event_handle_t event;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task detach(event) depend(out : x)
        {
#pragma omp task shared(x)
            {
                omp_fulfill_event(event); /* wrong */
                x = 1; /* found */
                omp_fulfill_event(event); /* right */
            }
        }
#pragma omp task shared(x, seen) depend(in : x)
        seen = x; /* found */
    }
    return seen;
}

/* case merged_by_default merged-task */
int merged_by_default(void) {
    int x = 2;
#pragma omp task mergeable if (0) /* wrong */ /* found */
#pragma omp task mergeable if (0) shared(x) /* right */
    x++;
    return x; /* found */
}

/* case merged_below_final merged-task */
static int leaves_below(int depth) {
    int leaves = 0, below = 0;
    if (depth == 0) return 1;
#pragma omp task mergeable final(depth < 3) firstprivate(leaves) shared(below) /* wrong */ /* found */
#pragma omp task final(depth < 3) firstprivate(leaves) shared(below) /* right */
    {
        leaves += 1;
        below = leaves_below(depth - 1);
    }
#pragma omp taskwait
    return below + leaves; /* found */
}
int merged_below_final(void) {
    int sum = 0;
#pragma omp parallel
#pragma omp single
    sum = leaves_below(4);
    return sum;
}

/* case merged_in_region merged-task */
int merged_in_region(void) {
    int shared_one = 0, total = 0;
    static int kept;
#pragma omp parallel
#pragma omp single
    {
        int next = 1, other = 1, *p = &other;
#pragma omp task mergeable if (0) /* found */
        {
            int own = next * 2;
            shared_one = own;
            kept = own;
            *p = own;
            next = own; /* wrong */
        }
#pragma omp task mergeable if (0) firstprivate(other)
        other = 7; /* nobody reads it before it is set */
        other = 8;
        total = next + other + shared_one; /* found */
    }
    return total + kept;
}
