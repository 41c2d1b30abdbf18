#include "launcher/host/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "launcher/keys/config_difference.h"
#include "parallel/comm/local.h"

namespace trireme {
namespace {

// The message of the error that each of `num_ranks` ranks caught; "" for none.
std::vector<std::string> caught_by_ranks(int num_ranks, const std::function<void(Communicator&)>& body,
                                         ErrorCode code = ErrorCode::kInvalidInput) {
  std::vector<std::string> messages(static_cast<std::size_t>(num_ranks));
  run_local_ranks(num_ranks, [&](const std::shared_ptr<Communicator>& comm) {
    try {
      body(*comm);
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.code(), code);
      messages[static_cast<std::size_t>(comm->rank())] = error.what();
    }
  });
  return messages;
}

void fail(const std::string& message) {
  throw Error(ErrorCode::kInvalidInput, message);
}

TEST(Agreement, NobodyFails) {
  for (const std::string& message : caught_by_ranks(3, [](Communicator& comm) { run_stage(comm, [] {}); })) {
    EXPECT_EQ(message, "");
  }
}

TEST(Agreement, OneFailureIsThrownByAll) {
  const auto messages = caught_by_ranks(3, [](Communicator& comm) {
    run_stage(comm, [&] {
      if (comm.rank() == 1) fail("no such file");
    });
  });
  for (const std::string& message : messages) EXPECT_EQ(message, "rank 1: no such file");
  const auto named = caught_by_ranks(2, [](Communicator& comm) {
    run_stage(comm, [&] {
      if (comm.rank() == 1) fail("rank 1, step 3: no such file");
    });
  });
  EXPECT_EQ(named[0], "rank 1, step 3: no such file");  // listed once
}

TEST(Agreement, ANameMakesNoLine) {
  const auto messages = caught_by_ranks(2, [](Communicator& comm) {
    run_stage(comm, [&] { fail(comm.rank() == 0 ? "no file a\nb" : "no file c"); });
  });
  EXPECT_EQ(messages[1], "rank 0: no file a\\nb\nrank 1: no file c");
}

TEST(Agreement, EqualMessagesAreSaidOnce) {
  const auto all = caught_by_ranks(3, [](Communicator& comm) { run_stage(comm, [] { fail("bad key"); }); });
  for (const std::string& message : all) EXPECT_EQ(message, "bad key");
  const auto mixed = caught_by_ranks(4, [](Communicator& comm) {
    run_stage(comm, [&] {
      if (comm.rank() != 2) fail(comm.rank() == 3 ? "full" : "gone");
    });
  });
  for (const std::string& message : mixed) EXPECT_EQ(message, "ranks 0-1: gone\nrank 3: full");
}

TEST(Agreement, DifferentDataNamesTheRanks) {
  const auto messages = caught_by_ranks(4, [](Communicator& comm) {
    const std::vector<std::string> read = {"data.train: 9\n", "", "data.train: 8\n", "data.train: 8\n"};
    check_same_data(comm, read[static_cast<std::size_t>(comm.rank())]);
  });
  for (const std::string& message : messages) {
    EXPECT_EQ(
        message,
        "the data differs between machines: rank 2 reads\ndata.train: 8\nbut rank 0 reads\ndata.train: 9\n"
        "copy the same files to every machine (ranks 2-3 have other files, too)");
  }
  for (const std::string& message :
       caught_by_ranks(2, [](Communicator& comm) { check_same_data(comm, comm.rank() == 0 ? "a" : ""); })) {
    EXPECT_EQ(message, "");
  }
}

TEST(Agreement, CodeIsOfTheLowestFailingRank) {
  caught_by_ranks(
      2,
      [](Communicator& comm) {
        run_stage(comm, [&] {
          if (comm.rank() == 1) throw std::runtime_error("odd");
        });
      },
      ErrorCode::kRuntime);
  caught_by_ranks(
      1, [](Communicator& comm) { run_stage(comm, [] { throw std::bad_alloc(); }); },
      ErrorCode::kOutOfMemory);
}

TEST(Agreement, FactsReachEveryRank) {
  const auto facts_of = [](const std::set<int>& failing) {
    std::vector<ErrorFacts> facts(3);
    run_local_ranks(3, [&](const std::shared_ptr<Communicator>& comm) {
      try {
        run_stage(*comm, [&] {
          if (failing.contains(comm->rank()))
            throw Error(ErrorCode::kRuntime, "rank {}'s", comm->rank())
                .about({.file = fmt::format("f{}", comm->rank()), .system_error = ENOSPC});
        });
      } catch (const AgreedError& error) {
        facts[static_cast<std::size_t>(comm->rank())] = error.facts();
      }
    });
    return facts;
  };
  const ErrorFacts of_two{.file = "f2", .rank = 2, .system_error = ENOSPC};
  EXPECT_EQ(facts_of({2}), (std::vector<ErrorFacts>(3, of_two)));
  const ErrorFacts of_both{.file = "f1", .system_error = ENOSPC};
  EXPECT_EQ(facts_of({1, 2}), (std::vector<ErrorFacts>(3, of_both))) << "no single rank is at fault";
}

TEST(Agreement, ConfigurationsThatDiffer) {
  const auto messages = caught_by_ranks(3, [](Communicator& comm) {
    check_same_config(comm, comm.rank() == 2 ? "[train]\nseed = 9\n" : "[train]\nseed = 1\n");
  });
  for (const std::string& message : messages) {
    EXPECT_THAT(message, ::testing::HasSubstr("rank 2 has train.seed = 9, rank 0 has 1"));
  }
}

TEST(Agreement, AnyRankAndTextOfRank) {
  run_local_ranks(3, [](const std::shared_ptr<Communicator>& comm) {
    EXPECT_FALSE(any_rank(*comm, false));
    EXPECT_TRUE(any_rank(*comm, comm->rank() == 2));
    EXPECT_EQ(text_of_rank(*comm, 1, "I am " + std::to_string(comm->rank())), "I am 1");
  });
}

}  // namespace
}  // namespace trireme
