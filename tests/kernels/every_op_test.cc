// The suite has a case for every op of the table, seen when all of it has run.
#include <gmock/gmock.h>

#include "tests/kernels/meta_run.h"

namespace trireme::testing {
namespace {

class EveryOpHasACase : public ::testing::Environment {
 public:
  void TearDown() override {
    if (GTEST_FLAG_GET(filter) != "*") return;
    EXPECT_THAT(ops_without_a_case(), ::testing::IsEmpty());
  }
};
const ::testing::Environment* const kAtTheEnd = ::testing::AddGlobalTestEnvironment(new EveryOpHasACase);

}  // namespace
}  // namespace trireme::testing
