// Blame depends only on the facts of a record: the messages here are meaningless on purpose.
#include "launcher/supervise/culprit_host.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using Event = RunRecord::Event;

/// Two ranks on two hosts, which the host file lists as addresses.
EndEvidence evidence(const std::optional<RunRecord>& failure, MpirunWords mpirun = {}) {
  return {.failure = failure,
          .mpirun = std::move(mpirun),
          .rank_hosts = {"node1", "node2"},
          .names = {{"node1", "10.0.0.1"}, {"node2", "10.0.0.2"}}};
}

RunRecord failure(ErrorFacts facts, Event event = Event::kVerdict) {
  return {
      .event = event, .reporter = 0, .reporter_host = "node1", .message = "zork", .facts = std::move(facts)};
}

TEST(CulpritHost, IsThatOfTheRankAtFault) {
  EXPECT_EQ(culprit_host(evidence(failure({.rank = 1}))), "10.0.0.2");
  EXPECT_EQ(culprit_host(evidence(failure({.rank = 1}, Event::kFailed))), "10.0.0.2");
  EXPECT_EQ(culprit_host(evidence(failure({.host = "node2", .rank = 0}))), "10.0.0.2")
      << "the record knows the host better than the list of ranks";
  EXPECT_EQ(culprit_host(evidence(failure({}))), "") << "all ranks wait, or all agreed to end";
  EXPECT_EQ(culprit_host(evidence(failure({.rank = 7}))), "");
}

TEST(CulpritHost, IsTheOneThatMpirunNamesWithoutARecord) {
  EXPECT_EQ(culprit_host(evidence({}, {.verdict = "zork", .rank = 1})), "10.0.0.2");
  EXPECT_EQ(culprit_host(evidence(failure({.rank = 1}), {.verdict = "zork", .rank = 0})), "10.0.0.2");
  EndEvidence before_ranks_have_joined = evidence({}, {.verdict = "zork", .rank = 1, .host = "node1"});
  before_ranks_have_joined.rank_hosts.clear();
  EXPECT_EQ(culprit_host(before_ranks_have_joined), "10.0.0.1");
  EXPECT_EQ(culprit_host(evidence({})), "");
}

TEST(CulpritHost, IsTheOneThatIsSilentAndNotThatOfTheRankThatRecordedIt) {
  EXPECT_EQ(culprit_host(evidence(failure({.host = "10.0.0.2"}))), "10.0.0.2");
  EXPECT_TRUE(failure({.host = "10.0.0.2"}).blames_silent_host());
  EXPECT_FALSE(failure({.host = "node2", .rank = 1}).blames_silent_host());
  EndEvidence named = evidence(failure({.host = "10.0.0.2"}));
  named.names = {{"node1", "node1"}, {"node2", "node2"}};
  EXPECT_EQ(culprit_host(named), "") << "the file has no such address";
}

TEST(CulpritHost, IsTheOneThatMpirunLost) {
  EXPECT_EQ(culprit_host(evidence(failure({.rank = 0}), {.lost_host = "10.0.0.2"})), "10.0.0.2");
  const std::multimap<std::string, std::string> names = {{"node1", "node1.cluster"},
                                                         {"node2", "node2.cluster"}};
  EXPECT_EQ(culprit_host({.failure = {}, .mpirun = {.lost_host = "node2"}, .names = names}), "node2.cluster")
      << "mpirun leaves the domain out";
}

// Two hosts share a first label. A name that is only the label is ambiguous, so no host is blamed.
TEST(CulpritHost, IsNobodyWhereTheNameIsThatOfSeveralHosts) {
  const auto culprit = [](const std::optional<RunRecord>& failure, MpirunWords mpirun = {}) {
    return culprit_host(
        {.failure = failure,
         .mpirun = std::move(mpirun),
         .rank_hosts = {"node1", "node1", "node2"},
         .names = {{"node1", "node1.a.org"}, {"node1", "node1.b.org"}, {"node2", "node2.a.org"}}});
  };
  EXPECT_EQ(culprit({}, {.lost_host = "node1.b.org"}), "node1.b.org");
  EXPECT_EQ(culprit({}, {.lost_host = "node1"}), "");
  EXPECT_EQ(culprit(failure({.rank = 1})), "");
  EXPECT_EQ(culprit(failure({.rank = 2})), "node2.a.org");
  EXPECT_EQ(culprit(failure({.host = "node1.a.org", .rank = 0})), "node1.a.org");
}

TEST(CulpritHost, EndsAreDescribedWithTheHostThatMpirunLost) {
  const std::string word =
      "mpirun has lost the connection to its daemon on 10.0.0.2: the host or its link is down";
  const MpirunWords lost{.lost_host = "10.0.0.2"};
  EXPECT_EQ(describe_end(evidence({}, lost)), word);
  RunRecord two_lines = failure({.rank = 0});
  two_lines.message = "rank 0: zork\n  in step 3";
  EXPECT_EQ(describe_end(evidence(two_lines, lost)), "host node1: rank 0: zork; " + word + "\n  in step 3");
  EXPECT_EQ(describe_end(evidence(failure({.rank = 0}))), "host node1: zork");
  EXPECT_EQ(describe_end(evidence({}, {.verdict = "mpirun noticed"})), "mpirun noticed");
  EXPECT_EQ(describe_end(evidence(failure({.host = "10.0.0.2"}), lost)), "host node1: zork")
      << "who saw it first";
  two_lines.message = "held up (EngineOptions::timeout_s = 4)";
  EXPECT_EQ(describe(two_lines), "host node1: held up (parallel.timeout_s = 4)");
}

}  // namespace
}  // namespace trireme
