// Exchanges on one and two levels over MPI, with ranks assigned to two hosts: the same bits, and predicted
// memory and traffic. Also tests the status that a rank shows while it saves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "tests/parallel/comm/mpi_main.h"
#include "tests/support/pipeline_layout.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

constexpr std::int64_t kSteps = 2;

std::uint64_t hash_of(const MpiSession& session, const testing::PipelineLayout& layout, Exchange exchange) {
  const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
  EngineOptions options = layout.options();
  options.layout.exchange = exchange;
  options.hosts = hosts_of(layout.ranks(), layout.ranks() / 2);
  Engine engine(blocks, session.world(), options);
  const StepPrediction predicted =
      predict_step(blocks, options, *options.sample, layout.ranks(), session.world()->rank());
  StepResult last = testing::train(engine, layout, kSteps);
  last.memory.peak[MemoryCategory::kWorkspace] = 0;
  EXPECT_EQ(last.memory.peak.bytes, predicted.memory.peak.bytes) << layout.to_string();
  EXPECT_EQ(last.memory.peak_total, predicted.memory.peak_total) << layout.to_string();
  EXPECT_EQ(last.sent_bytes, predicted.sent_bytes) << layout.to_string();
  EXPECT_EQ(engine.groups().in_host != nullptr, exchange == Exchange::kHierarchical);
  return engine.state_hash();
}

void gives_the_bits_of_one_level(const MpiSession& session) {
  for (const int zero : {0, 1, 2, 3}) {
    const testing::PipelineLayout layout{.data = session.world()->size(), .zero = zero};
    EXPECT_EQ(hash_of(session, layout, Exchange::kFlat), hash_of(session, layout, Exchange::kHierarchical))
        << layout.to_string();
  }
}

// A slow file system is then reported with the file: the text of the last action stays on the board.
void a_save_shows_the_file(const MpiSession& session) {
  const testing::PipelineLayout layout{.data = session.world()->size(), .zero = 1};
  const Engine engine(build_gpt(layout.model()), session.world(), layout.options());
  const testing::TemporaryFolder folder;
  save_state(engine, folder.path());
  if (session.world()->rank() > 0) return;
  const RankStatus& status = *session.world()->status();
  EXPECT_THAT(
      status.board().read(status.slot()).text,
      ::testing::AllOf(::testing::HasSubstr("the writing of "), ::testing::HasSubstr(kOptimizerFile)));
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const trireme::MpiSession session;
  return trireme::run_mpi_tests(
      argc, argv, session,
      {{"ExchangeMpi", "TwoLevelsGiveTheBitsOfOne", [&] { trireme::gives_the_bits_of_one_level(session); }},
       {"ExchangeMpi", "ASaveShowsTheFile", [&] { trireme::a_save_shows_the_file(session); }}});
}
