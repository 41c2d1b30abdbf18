#include "launcher/stop_request.h"

#include <gtest/gtest.h>

#include <csignal>

namespace trireme {
namespace {

TEST(StopRequest, SignalsAreRemembered) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    const StopRequest stop;
    EXPECT_FALSE(stop.requested());
    EXPECT_STREQ(stop.signal_name(), "");
    std::raise(signal);
    EXPECT_TRUE(stop.requested());
    EXPECT_STREQ(stop.signal_name(), signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "SIGUSR1");
  }
}

TEST(StopRequest, FormerHandlersComeBack) {
  struct sigaction before = {}, after = {};
  sigaction(SIGTERM, nullptr, &before);
  {
    const StopRequest stop;
    sigaction(SIGTERM, nullptr, &after);
    EXPECT_NE(after.sa_handler, before.sa_handler);
  }
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(StopRequestDeathTest, SecondInterruptEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const StopRequest stop;
        std::raise(SIGINT);
        std::raise(SIGINT);
        _exit(0);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace trireme
