// Threads of C++ that use one window: run as `threads right` or `threads wrong`. Two ranks.
#include <mpi.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

using namespace std::chrono_literals;

static int *memory, seven = 7;
static MPI_Win win;
static bool wrong;

static void put(int at)
{
    MPI_Put(&seven, 1, MPI_INT, 0, at, 1, MPI_INT, win);
    MPI_Win_flush(0, win);
}

static void join()
{
    std::thread other([] { put(0); std::this_thread::sleep_for(100ms); });
    if (wrong)
        std::this_thread::sleep_for(50ms);
    else
        other.join();
    memory[0] = 1; /* BUG */
    if (wrong)
        other.join();
}

static void condition_variable()
{
    std::mutex mutex;
    std::condition_variable changed;
    bool ready = false;
    std::thread other([&] {
        put(1);
        if (!wrong) {
            std::lock_guard<std::mutex> lock(mutex);
            ready = true;
            changed.notify_one();
        }
        std::this_thread::sleep_for(100ms);
    });
    if (wrong) {
        std::this_thread::sleep_for(50ms);
    } else {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return ready; });
    }
    memory[1] = 1; /* BUG */
    other.join();
}

static void atomic_flag()
{
    std::atomic<int> flag{0};
    std::thread other([&] {
        put(2);
        if (!wrong)
            flag.store(1, std::memory_order_release);
        std::this_thread::sleep_for(100ms);
    });
    if (wrong)
        std::this_thread::sleep_for(50ms);
    while (!wrong && !flag.load(std::memory_order_acquire))
        std::this_thread::yield();
    memory[2] = 1; /* BUG */
    other.join();
}

static void futures()
{
    auto done = std::async(std::launch::async, [] { put(3); return 1; });
    done.get();
    memory[3] = 1;
    std::promise<int> promise;
    auto future = promise.get_future();
    std::thread other([&] { put(4); promise.set_value(3); std::this_thread::sleep_for(50ms); });
    future.get();
    memory[4] = 1;
    other.join();
}

int main(int argc, char **argv)
{
    int provided, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE)
        return MPI_Finalize(), 0;
    wrong = argc > 1 && !std::strcmp(argv[1], "wrong");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(8 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        join();
        condition_variable();
        atomic_flag();
        futures();
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
