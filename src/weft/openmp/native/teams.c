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

/* Begin the turn of one team of a league in the running thread, as a strand that nothing orders with the other
 * teams. */
static void begin_team_turn(struct league *league, int number) {
    strand_t strand = create_strand(league->team.region, IMPLICIT, 0);
    node(strand)->index = number;
    node(strand)->place = league->team.place;
    me->number = number;
    me->lowest = UINTPTR_MAX;
    set_checking(true);
    run_as_strand(strand);
}

/* Forget the accesses to the stack that a team's turn used, because the next team uses the same memory. */
static void clear_team_stack(const struct league *league) {
    uintptr_t low = me->lowest < FRAME ? me->lowest : FRAME, high = league->before.target_frame;
    if (low < high && high <= me->stack_high) clear_shadow(low, high);
}

/* Begin a league (OpenMP `teams`) of `size` teams that run one after another in the running thread. Aborts without
 * memory. */
static void begin_league(int size, uintptr_t place) {
    struct league *league = calloc(1, sizeof *league);
    if (!league) abort();
    *league = (struct league){.before = *me, .member = me, .first = !now.on, .outer = leagues};
    league->team = (struct team){.size = size,
                                 .threads = &league->member,
                                 .outer = me->team,
                                 .place = place_of(place),
                                 .level = me->team ? me->team->level + 1 : 1,
                                 .league = true,
                                 .in_turn = true,
                                 .on_device = me->on_device,
                                 .target = me->target};
    leagues = league;
    if (league->first) retire_all_strands();
    league->team.region = create_strand(me->current, REGION, 0);
    node(league->team.region)->place = league->team.place;
    count_construct_run(league->team.place, "teams", 0);
    me->team = &league->team;
    me->frame = me->target_frame;
}

/* End the innermost league (OpenMP `teams`) and restore the running thread's state. */
static void end_league(void) {
    struct league *league = leagues;
    free_constructs(&league->team);
    mark_as_joined(league->team.region);
    if (league->before.lowest < me->lowest) me->lowest = league->before.lowest;
    me->team = league->before.team;
    me->number = league->before.number;
    me->frame = league->before.frame;
    me->plain = league->before.plain;
    me->current = league->before.current;
    set_checking(!league->first);
    if (league->first) retire_all_strands();
    else set_current_strand(me->current);
    leagues = league->outer;
    free(league);
}

/* Called by GCC's code for `teams` outside of target regions: run a region in which each team is one thread. */
void GOMP_teams_reg(void (*fn)(void *), void *data, unsigned team_count, unsigned thread_limit, unsigned flags) {
    (void)thread_limit, (void)flags;
    run_parallel_region(fn, data, team_count ? team_count : TEAMS, BEGINNING(fn), FRAME, true);
}

/* Called by GCC's code for `teams` in a target region before each run of the body: return whether another team is to
 * run it. */
bool GOMP_teams4(unsigned lower_bound, unsigned upper_bound, unsigned thread_limit, bool is_first) {
    (void)lower_bound, (void)thread_limit;
    if (is_first) {
        begin_league(upper_bound ? (int)upper_bound : TEAMS, PLACE);
        begin_team_turn(leagues, 0);
        return true;
    }
    struct league *league = leagues;
    clear_team_stack(league);
    bool has_more = me->number + 1 < league->team.size;
    if (has_more) begin_team_turn(league, me->number + 1);
    else end_league();
    return has_more;
}
void GOMP_teams(unsigned teams, unsigned limit) { (void)teams, (void)limit; }

/* Return the innermost league (OpenMP `teams`) that the running thread is in; NULL if there is none. */
static const struct team *find_league(void) {
    const struct team *team = me->team;
    while (team && !team->league) team = team->outer;
    return team;
}

/* Return the number of the running thread's team within its league (OpenMP `teams`). */
static int find_team_number(void) {
    int number = me->number;
    for (const struct team *team = me->team; team && !team->league; team = team->outer) number = team->within;
    return number;
}

NUMBER(get_num_teams, find_league() ? find_league()->size : 1)
NUMBER(get_team_num, find_league() ? find_team_number() : 0)
