#include "launcher/observe/request_origin.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

unsigned on_loopback(const std::vector<std::string>& hosts, const std::vector<std::string>& origins = {}) {
  return refusal_of({.hosts = hosts, .origins = origins}, "trainer", /*loopback=*/true);
}

TEST(RequestOrigin, ALoopbackServerAnswersToItsOwnNamesAlone) {
  for (const char* host : {"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:9464", "127.8.9.1:80",
                           "[::1]", "[::1]:8080", "trainer", "Trainer:80"})
    EXPECT_EQ(on_loopback({host}), 0U) << host;
  for (const char* host : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "127.evil.example",
                           "localhost.evil.example", "10.0.0.1", "[::2]:80", "128.0.0.1"})
    EXPECT_EQ(on_loopback({host}), 421U) << host;
}

TEST(RequestOrigin, AnyNameReachesAServerThatOtherMachinesReach) {
  EXPECT_EQ(refusal_of({.hosts = {"node17.cluster:9464"}, .origins = {}}, "0.0.0.0", /*loopback=*/false), 0U);
}

TEST(RequestOrigin, AHostIsGivenOnceAndIsAnAddress) {
  EXPECT_EQ(on_loopback({}), 400U);
  EXPECT_EQ(on_loopback({"localhost", "localhost"}), 400U);
  for (const char* host : {"", ":80", "localhost:80x", "localhost:1:2", "[::1", "[::1]80"})
    EXPECT_EQ(on_loopback({host}), 400U) << host;
}

TEST(RequestOrigin, TheAuthorityOfATargetTakesThePlaceOfHost) {
  const auto refusal = [](const char* target, const char* host,
                          const std::vector<std::string>& origins = {}) {
    const auto parsed = parse_target(target);
    return parsed
               ? refusal_of({.hosts = {host}, .origins = origins, .authority = parsed->authority}, "trainer",
                            /*loopback=*/true)
               : 400U;
  };
  EXPECT_EQ(refusal("http://127.0.0.1:9400/metrics", "evil.example"), 0U);
  EXPECT_EQ(refusal("HTTP://[::1]:80", "[::1]"), 0U);
  EXPECT_EQ(refusal("http://trainer/metrics", "trainer", {"http://trainer"}), 0U);
  EXPECT_EQ(refusal("http://trainer/metrics", "trainer:80", {"http://trainer:80"}), 403U);
  for (const char* target :
       {"http://evil.example/metrics", "http://evil.example", "http://127.0.0.1.evil.example/",
        "http://127.0.0.1@evil.example/", "http://evil@127.0.0.1/"})
    EXPECT_EQ(refusal(target, "127.0.0.1"), 421U) << target;
  for (const char* target : {"http:///metrics", "http://", "https://127.0.0.1/metrics", "metrics", "", "*",
                             "file:///etc/passwd", "http://[::1/metrics", "http://localhost:x/"})
    EXPECT_EQ(refusal(target, "127.0.0.1"), 400U) << target;
  EXPECT_EQ(refusal_of({.hosts = {}, .origins = {}, .authority = "localhost"}, "trainer", true), 400U);
}

TEST(RequestOrigin, TargetsNameAPath) {
  for (const char* target : {"/metrics", "http://127.0.0.1:9400/metrics", "http://localhost/metrics"})
    EXPECT_EQ(parse_target(target).value().path, "/metrics") << target;
  EXPECT_EQ(parse_target("http://localhost:80").value().path, "/");
  EXPECT_EQ(parse_target("//localhost/metrics").value().path, "//localhost/metrics");
  EXPECT_EQ(parse_target("//localhost/metrics").value().authority, "");
}

TEST(RequestOrigin, PagesOfOtherOriginsAreRefusedEverywhere) {
  EXPECT_EQ(on_loopback({"localhost:80"}, {"http://localhost:80"}), 0U);
  for (const char* origin : {"http://evil.example", "http://localhost:81", "null", "localhost:80", ""})
    EXPECT_EQ(on_loopback({"localhost:80"}, {origin}), 403U) << origin;
  EXPECT_EQ(refusal_of({.hosts = {"node"}, .origins = {"http://evil.example"}}, "0.0.0.0", false), 403U);
}

}  // namespace
}  // namespace trireme
