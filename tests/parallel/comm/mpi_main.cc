#include "tests/parallel/comm/mpi_main.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

class FailurePrinter : public ::testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestStart(const ::testing::TestInfo& test) override { test_name_ = test.name(); }
  // GoogleTest holds its lock here: querying the current test would deadlock.
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* file = result.file_name() == nullptr ? "?" : result.file_name();
    fmt::print(stderr, "rank {}: {} failed at {}:{}\n{}\n", rank_, test_name_, file, result.line_number(),
               result.message());
  }

 private:
  int rank_;
  std::string test_name_ = "?";
};

class MpiTestBody : public ::testing::Test {
 public:
  MpiTestBody(MpiTest test, std::shared_ptr<Communicator> world)
      : test_(std::move(test)), world_(std::move(world)) {}

  void TestBody() override {
    try {
      test_.run();
      world_->barrier();  // keeps failures of one test out of the next
    } catch (const std::exception& error) {
      world_->abort(Error(ErrorCode::kRuntime, test_.name + " threw: " + error.what()));
    }
  }

 private:
  MpiTest test_;
  std::shared_ptr<Communicator> world_;
};

}  // namespace

int run_mpi_tests(int argc, char** argv, const MpiSession& session, const std::vector<MpiTest>& tests) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::shared_ptr<Communicator> world = session.world();
  if (world->rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(world->rank()));
  }
  for (const MpiTest& test : tests) {
    ::testing::RegisterTest(test.suite.c_str(), test.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [test, world]() -> ::testing::Test* { return new MpiTestBody(test, world); });
  }
  return RUN_ALL_TESTS();
}

}  // namespace trireme
