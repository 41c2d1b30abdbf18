#include "launcher/host/error_report.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "launcher/host/agreement.h"
#include "parallel/comm/local.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

TEST(PathError, SaysWhichPathAndWhy) {
  const std::string name(300, 'x');
  try {
    (void)fs::exists(name);
    FAIL() << "a name of 300 bytes was looked at";
  } catch (const fs::filesystem_error& error) {
    EXPECT_EQ(as_error(error).code(), ErrorCode::kInvalidInput);
    EXPECT_EQ(std::string(as_error(error).what()), "cannot use " + name + ": File name too long");
  }
}

TEST(PathError, ADiskThatRefusesIsNoInput) {
  const fs::filesystem_error error("rename", "a", "b", std::make_error_code(std::errc::no_space_on_device));
  EXPECT_EQ(as_error(error).code(), ErrorCode::kRuntime);
  EXPECT_EQ(as_error(error).facts(), (ErrorFacts{.file = "a", .system_error = ENOSPC}));
  EXPECT_EQ(std::string(as_error(error).what()), "cannot use a and b: No space left on device");
}

TEST(PathError, RanksAgreeOnIt) {
  const auto comm = LocalWorld(1).communicator(0);
  try {
    run_stage(*comm, [] { (void)fs::exists(std::string(300, 'x')); });
    FAIL() << "accepted";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
  }
}

}  // namespace
}  // namespace trireme
