#include "runtime/base/for_each_index.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

namespace trireme {
namespace {

TEST(ForEachIndex, EachIsDoneOnceByNoMoreThreadsThanAsked) {
  for (const int threads : {-1, 0, 1, 3, 64}) {
    std::mutex mutex;
    std::multiset<std::size_t> done;
    std::set<std::thread::id> by;
    for_each_index(50, threads, [&](std::size_t i) {
      const std::lock_guard lock(mutex);
      done.insert(i);
      by.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(done.size(), 50u) << threads;
    EXPECT_EQ(std::set(done.begin(), done.end()).size(), 50u) << threads;
    EXPECT_LE(by.size(), static_cast<std::size_t>(std::max(threads, 1))) << threads;
  }
  for_each_index(0, 3, [](std::size_t) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace trireme
