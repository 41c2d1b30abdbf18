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

TEST(RequestOrigin, PagesOfOtherOriginsAreRefusedEverywhere) {
  EXPECT_EQ(on_loopback({"localhost:80"}, {"http://localhost:80"}), 0U);
  for (const char* origin : {"http://evil.example", "http://localhost:81", "null", "localhost:80", ""})
    EXPECT_EQ(on_loopback({"localhost:80"}, {origin}), 403U) << origin;
  EXPECT_EQ(refusal_of({.hosts = {"node"}, .origins = {"http://evil.example"}}, "0.0.0.0", false), 403U);
}

}  // namespace
}  // namespace trireme
