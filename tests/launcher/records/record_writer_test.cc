#include "launcher/records/record_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/supervise/attempt_records.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kTag = "4711.5@node1#2";

RunRecord failure() {
  return record_of(RunRecord::Event::kFailed, Error(ErrorCode::kRuntime, "zork").about({.rank = 1}));
}

/// Returns the rank's standard error.
std::string write(RecordWriter& writer) {
  ::testing::internal::CaptureStderr();
  writer.write(failure());
  return ::testing::internal::GetCapturedStderr();
}

class Records : public ::testing::Test {
 protected:
  Records() { fs::create_directories(out_ / "attempts"); }
  ~Records() override { AttemptRecords(out_, kTag).remove_host_folder(); }
  RecordWriter writer(const std::string& host, const std::string& attempt = kTag) const {
    return RecordWriter(
        {.out = out_, .attempt = attempt, .rank = 1, .host = host, .patience = std::chrono::minutes(1)});
  }

  const testing::TemporaryFolder folder_;
  const fs::path out_ = folder_ / "out";
};

TEST_F(Records, AreFilesInTheOutputFolder) {
  RecordWriter rank = writer("node1");
  EXPECT_EQ(write(rank), "") << "the supervisor is on this host";
  AttemptRecords records(out_, kTag);
  records.look();
  records.look();  // each file is read once
  const auto found = records.failure();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->reporter, 1);
  EXPECT_EQ(found->facts.rank, 1);
  EXPECT_EQ(found->facts.host, "node1");
  EXPECT_FALSE(fs::exists(record_folders(out_, kTag).host));
  AttemptRecords other(out_, "4711.5@node1#3");
  other.look();
  EXPECT_FALSE(other.failure()) << "of another attempt";
}

TEST_F(Records, GoToAFolderOfTheHostWhereTheOutputFolderIsLost) {
  fs::remove_all(out_);
  RecordWriter rank = writer("node1");
  EXPECT_EQ(write(rank), "");
  EXPECT_FALSE(fs::exists(out_)) << "it was made again";
  AttemptRecords records(out_, kTag);
  records.look();
  EXPECT_TRUE(records.failure());
  records.remove_host_folder();
  EXPECT_FALSE(fs::exists(record_folders(out_, kTag).host));
}

TEST_F(Records, AreLinesOfTheOutputWhereTheSupervisorIsOnAnotherHost) {
  RecordWriter rank = writer("node2");
  const std::string line = write(rank);
  EXPECT_THAT(line, StartsWith("trireme-record: {"));
  AttemptRecords records(out_, kTag);
  EXPECT_TRUE(records.take("[1,1]<stderr>:" + line.substr(0, line.size() - 1)));  // mpirun --tag-output
  ASSERT_TRUE(records.failure());
  EXPECT_EQ(records.failure()->facts.host, "node2");
  EXPECT_TRUE(records.take(line.substr(0, 40))) << "a damaged one is not for people either";
  EXPECT_FALSE(records.take("step 3/9  loss 4.1"));
}

TEST_F(Records, OfAHostThatMayBeCutOffBlameNobody) {
  AttemptRecords records(out_, kTag);
  const auto silent = [](const std::string& host, const std::string& reporter, std::int64_t time_ns) {
    RunRecord record =
        record_of(RunRecord::Event::kVerdict, Error(ErrorCode::kCommunication, "it is silent"));
    record.facts.host = host, record.reporter_host = reporter, record.time_ns = time_ns;
    return record;
  };
  records.add(silent("10.0.0.1", "node2", 1));
  EXPECT_EQ(records.failure()->facts.host, "10.0.0.1") << "no rank is known to run here";
  RunRecord started;
  started.event = RunRecord::Event::kStarted, started.hosts = {"node1", "node2"};
  records.add(started);
  EXPECT_FALSE(records.failure());
  ASSERT_TRUE(records.doubtful_failure());
  EXPECT_EQ(records.doubtful_failure()->facts.host, "");
  records.add(silent("10.0.0.2", "node1", 2));
  EXPECT_EQ(records.failure()->facts.host, "10.0.0.2")
      << "a rank beside the supervisor reaches as much as it";
}

TEST_F(Records, OfAJobThatNobodySupervisesAreWrittenOnceItHasItsOutputFolder) {
  const fs::path records = out_ / "records";
  RecordWriter rank = writer("node1", "");
  EXPECT_EQ(write(rank), "");
  EXPECT_FALSE(fs::exists(records)) << "a job that is refused leaves nothing";
  testing::write_file(records / "failed-7.json", "of an earlier run");
  RecordWriter first({.out = out_, .attempt = "", .rank = 0, .host = "node1"});
  first.claim_output();
  EXPECT_FALSE(fs::exists(records));
  rank.claim_output();
  EXPECT_EQ(write(rank), "");
  EXPECT_THAT(testing::read_file(records / "failed-1.json"), HasSubstr("\"message\":\"zork\""));
}

TEST(RecordFolders, AreNamedAfterTheAttempt) {
  EXPECT_EQ(attempt_name("4711.98765@node-1#12"), "4711-98765-12");
  EXPECT_EQ(supervisor_host("4711.98765@node-1#12"), "node-1");
  EXPECT_EQ(supervisor_host(""), "");
  EXPECT_EQ(record_folders("out", "1.2@a#3").shared, fs::path("out/attempts/records-1-2-3"));
  EXPECT_TRUE(record_folders("out", "").host.empty());
}

}  // namespace
}  // namespace trireme
