/* Leagues of teams. Outside of target regions each team is a thread; within, the compiler runs the block of a construct
 * `teams` once for each team, one after another in the same thread, and each is a strand that nothing orders. */
#include "openmp.h"

#define TEAMS 4 /* where the program asks for no number */

struct league {
    struct team team;
    struct thread before;
    struct thread *member;
    bool first;
    struct league *outer;
};

static struct league *leagues; /* one within another */

static void team_begins(struct league *l, int number) {
    strand_t s = create_strand(l->team.region, IMPLICIT, 0);
    node(s)->index = number;
    node(s)->place = l->team.place;
    me->number = number;
    me->lowest = UINTPTR_MAX;
    set_checking(true);
    run_as_strand(s);
}

/* The next team uses the same part of the stack. */
static void team_ends(const struct league *l) {
    uintptr_t low = me->lowest < FRAME ? me->lowest : FRAME, high = l->before.target_frame;
    if (low < high && high <= me->stack_high) clear_shadow(low, high);
}

static void league_begins(int size, uintptr_t place) {
    struct league *l = calloc(1, sizeof *l);
    if (!l) abort();
    *l = (struct league){.before = *me, .member = me, .first = !now.on, .outer = leagues};
    l->team = (struct team){.size = size,
                            .threads = &l->member,
                            .outer = me->team,
                            .place = place_of(place),
                            .level = me->team ? me->team->level + 1 : 1,
                            .league = true,
                            .in_turn = true,
                            .on_device = me->on_device,
                            .target = me->target};
    leagues = l;
    if (l->first) retire_all_strands();
    l->team.region = create_strand(me->current, REGION, 0);
    node(l->team.region)->place = l->team.place;
    told_construct(l->team.place, "teams", 0);
    me->team = &l->team;
    me->frame = me->target_frame;
}

static void league_ends(void) {
    struct league *l = leagues;
    works_end(&l->team);
    node(l->team.region)->joined = true;
    if (l->before.lowest < me->lowest) me->lowest = l->before.lowest;
    me->team = l->before.team;
    me->number = l->before.number;
    me->frame = l->before.frame;
    me->plain = l->before.plain;
    me->current = l->before.current;
    set_checking(!l->first);
    if (l->first) retire_all_strands();
    else set_current_strand(me->current);
    leagues = l->outer;
    free(l);
}

void GOMP_teams_reg(void (*fn)(void *), void *data, unsigned teams, unsigned limit, unsigned flags) {
    (void)limit, (void)flags;
    run_parallel_region(fn, data, teams ? teams : TEAMS, BEGINNING(fn), FRAME, true);
}

/* Before each team's turn: whether there is one more. */
bool GOMP_teams4(unsigned low, unsigned high, unsigned limit, bool first) {
    (void)low, (void)limit;
    if (first) {
        league_begins(high ? (int)high : TEAMS, PLACE);
        team_begins(leagues, 0);
        return true;
    }
    struct league *l = leagues;
    team_ends(l);
    bool more = me->number + 1 < l->team.size;
    if (more) team_begins(l, me->number + 1);
    else league_ends();
    return more;
}
void GOMP_teams(unsigned teams, unsigned limit) { (void)teams, (void)limit; }

/* The league that a thread is in, however deep. */
static const struct team *league(void) {
    const struct team *t = me->team;
    while (t && !t->league) t = t->outer;
    return t;
}

static int team_number(void) {
    int number = me->number;
    for (const struct team *t = me->team; t && !t->league; t = t->outer) number = t->within;
    return number;
}

NUMBER(get_num_teams, league() ? league()->size : 1)
NUMBER(get_team_num, league() ? team_number() : 0)
