#include "launcher/train/stop_request.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "runtime/context.h"

namespace trireme {
namespace {

// Sends to the process, as from outside; the listener thread receives it.
void send(int signal) {
  kill(getpid(), signal);
}

void wait_for(const StopRequest& stop) {
  while (!stop.requested()) std::this_thread::yield();  // ended by the test's time limit if it never stops
}

TEST(StopRequest, SignalsAreRemembered) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    const StopRequest stop;
    EXPECT_FALSE(stop.requested());
    send(signal);
    wait_for(stop);
    EXPECT_TRUE(stop.requested());
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

// Products that are interrupted thousands of times still have the same bits.
TEST(StopRequest, SignalsDoNotDisturbComputation) {
  const StopRequest stop;
  const Context ctx = Context::create({}, 1);
  constexpr std::int64_t kSize = 96;
  std::vector<float> values(kSize * kSize);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13) - 6.0f;
  const Tensor a = ctx.from_host(values.data(), {kSize, kSize}, DType::kFloat32);
  const auto product = [&] {
    const Tensor d = ctx.empty({kSize, kSize});
    ctx.run(MatmulArgs{.a = a, .b = a, .d = d, .transpose_b = Transpose::kYes});
    return ctx.to_host(d);
  };
  const std::vector<float> expected = product();
  std::jthread sender([](const std::stop_token& token) {
    while (!token.stop_requested()) {
      send(SIGTERM);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(product(), expected) << "product " << i;
}

TEST(StopRequestDeathTest, SecondInterruptEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const StopRequest stop;
        send(SIGINT);
        wait_for(stop);
        send(SIGINT);
        while (true) std::this_thread::yield();
      },
      ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace trireme
