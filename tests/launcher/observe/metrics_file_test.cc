#include "launcher/observe/metrics_file.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "launcher/observe/listen_address.h"
#include "runtime/base/error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "accepted";
}

TEST(MetricsFile, ARelativePathLiesInTheOutputFolder) {
  const testing::TemporaryFolder out;
  EXPECT_EQ(metrics_file("a.prom", out.path()), out / "a.prom");
  EXPECT_EQ(metrics_file("./b/../a.prom", out.path()), out / "a.prom");
}

TEST(MetricsFile, WhatLeadsOutIsRefused) {
  const testing::TemporaryFolder out, elsewhere;
  fs::create_directory_symlink(elsewhere.path(), out / "link");
  for (const std::string path : {"../a.prom", "b/../../a.prom", "link/a.prom"}) {
    EXPECT_THAT(refusal([&] { metrics_file(path, out.path()); }),
                AllOf(HasSubstr("log.prometheus = \"" + path), HasSubstr("leads out of the output folder")));
  }
  // An absolute path, such as a collector's folder, is allowed.
  EXPECT_EQ(metrics_file((elsewhere / "a.prom").string(), out.path()), elsewhere / "a.prom");
}

TEST(MetricsFile, AFolderBehindALinkOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link to another user";
  constexpr uid_t kNobody = 65534;
  const testing::TemporaryFolder out, elsewhere;
  fs::create_directory_symlink(elsewhere.path(), out / "link");
  const std::string path = (out / "link/a.prom").string();
  EXPECT_EQ(metrics_file(path, out.path()), path);
  ASSERT_EQ(::lchown((out / "link").c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(refusal([&] { metrics_file(path, out.path()); }), HasSubstr("link belongs to another user"));
}

TEST(MetricsFile, WhatCannotBeWrittenIsRefused) {
  const testing::TemporaryFolder out;
  fs::create_directory(out / "folder.prom");
  EXPECT_THAT(refusal([&] { metrics_file("metrics.jsonl", out.path()); }), HasSubstr("ends in .prom"));
  EXPECT_THAT(refusal([&] { metrics_file(".prom", out.path()); }), HasSubstr("ends in .prom"));
  EXPECT_THAT(refusal([&] { metrics_file("missing/a.prom", out.path()); }), HasSubstr("there is no folder"));
  EXPECT_THAT(refusal([&] { metrics_file("folder.prom", out.path()); }), HasSubstr("not a regular file"));
}

TEST(MetricsFile, IsReplacedAndNothingStaysBeside) {
  const testing::TemporaryFolder out;
  write_metrics_file(out / "a.prom", "old and longer\n");
  write_metrics_file(out / "a.prom", "new\n");
  EXPECT_EQ(testing::read_file(out / "a.prom"), "new\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(out.path()), fs::directory_iterator()), 1);
  EXPECT_THROW(write_metrics_file(out / "gone" / "a.prom", "x"), Error);
}

TEST(MetricsFile, LinksThatAreLaidInItsWayAreNotWrittenThrough) {
  const testing::TemporaryFolder out;
  testing::write_file(out / "precious", "precious");
  const fs::path temporary = out / fmt::format(".a.prom.tmp-{}", getpid());
  fs::create_symlink("precious", temporary);
  fs::create_symlink("precious", out / "a.prom");
  write_metrics_file(out / "a.prom", "new\n");
  EXPECT_EQ(testing::read_file(out / "precious"), "precious");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(out / "a.prom")));
  EXPECT_EQ(testing::read_file(out / "a.prom"), "new\n");
}

TEST(ListenAddress, HostAndPort) {
  EXPECT_EQ(parse_listen_address("127.0.0.1:9464", "").host, "127.0.0.1");
  EXPECT_EQ(parse_listen_address("[::1]:0", "").host, "::1");
  EXPECT_EQ(parse_listen_address("localhost:65535", "").port, "65535");
  for (const char* text : {"9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:9464", "a:-1",
                           "a:1x", "[]:1", "a: 1"}) {
    EXPECT_THAT(refusal([&] { parse_listen_address(text, "--listen x"); }),
                HasSubstr("--listen x: this is no"));
  }
}

}  // namespace
}  // namespace trireme
