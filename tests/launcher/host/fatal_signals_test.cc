#include "launcher/host/fatal_signals.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

namespace trireme {
namespace {

// Allocates without pause until the signal arrives: mostly while a lock of the allocator is held.
[[noreturn]] void get_signal_while_allocating(int signal) {
  report_fatal_signals();
  const pthread_t self = ::pthread_self();
  std::thread([signal, self] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::pthread_kill(self, signal);
  }).detach();
  std::vector<void*> blocks(64, nullptr);
  for (std::size_t i = 0;; ++i) {
    void*& block = blocks[i * 7 % blocks.size()];
    std::free(block);
    block = std::malloc(2000 + i % 9000);
  }
}

// SIGABRT, because sanitizers handle the other signals.
TEST(FatalSignalsDeathTest, AProcessEndsThoughItHoldsLocksOfTheAllocator) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EXIT(get_signal_while_allocating(SIGABRT), ::testing::KilledBySignal(SIGABRT),
                "process [0-9]+ received signal 6 \\(SIGABRT\\)[^\n]*report it with this stack:\n.*libc");
  }
}

TEST(FatalSignalsDeathTest, AHandlerThatIsThereStays) {
  EXPECT_EXIT(
      {
        std::signal(SIGABRT, [](int) { ::_exit(7); });
        report_fatal_signals();
        std::abort();
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace trireme
