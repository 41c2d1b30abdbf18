#include "launcher/state/run_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "launcher/train/checkpoint_save.h"
#include "parallel/comm/local.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class RunCheckpoint : public ::testing::Test {
 protected:
  std::filesystem::path save(std::int64_t step, std::int64_t keep = 0) {
    engine_.set_steps_done(step);
    RunState state{.step = step,
                   .loss = 2.5,
                   .eval_loss = 3.5,
                   .evaluation_due = true,
                   .state_hash = "00aa",
                   .loss_scale = kScale,
                   .arithmetic = {{"instruction set", "x86_64_v3"}},
                   .data = kData,
                   .spikes = kSpikes};
    state.config.data.kind = DataKind::kSynthetic;
    state.config.model = {.layers = 2, .hidden = 32, .heads = 2, .vocab = 61, .seq_len = 16};
    state.config.checkpoint.keep = keep;
    testing::write_file(folder_ / "vocabulary", "model");
    state.data.tokenizer.hash = hash_of_vocabulary();
    return CheckpointSave(engine_)
        .save({.store = store_,
               .state = state,
               .tokenizer_model = folder_ / "vocabulary",
               .began = std::chrono::steady_clock::now()})
        .folder;
  }

  std::uint64_t hash_of_vocabulary() const {
    return read_tokenizer_record("sentencepiece", folder_ / "vocabulary").hash;
  }

  static constexpr LossScaleState kScale{
      .scale = 0x1.8p20f, .clean_steps = 5, .skipped_in_a_row = 1, .updates = 6};
  const DataRecord kData{
      .samples = 1234567890123,
      .pass_samples = 40,
      .train = DataFingerprint{.contents = "1800 tokens", .hash = 0xfedcba9876543210, .names_hash = 7},
      .tokenizer = {.kind = "sentencepiece", .vocab_size = 61},
      .class_names = {"ant", "caf\xC3\xA9"}};
  const SpikeState kSpikes{.loss = {.values = {2.1, 0.1 + 0.2}, .is_high = true},
                           .grad_norm = {.values = {1e-300}},
                           .calm_from = 84,
                           .left_out_in_a_row = 3};
  testing::TemporaryFolder folder_;
  CheckpointStore store_{folder_ / "run/checkpoints"};
  Engine engine_{build_gpt(testing::tiny_gpt_config()), LocalWorld(1).communicator(0), {}};
};

TEST_F(RunCheckpoint, StateComesBack) {
  const auto saved = save(7);
  EXPECT_EQ(saved.filename(), "step-000007");
  const RunState state = read_run_state(open_checkpoint_or_run(saved));
  EXPECT_EQ(state.step, 7);
  EXPECT_EQ(state.loss, 2.5);
  EXPECT_EQ(state.eval_loss, 3.5);
  EXPECT_EQ(state.state_hash, "00aa");
  EXPECT_EQ(state.loss_scale, kScale);
  EXPECT_EQ(state.arithmetic, (BitFacts{{"instruction set", "x86_64_v3"}}));
  EXPECT_EQ(state.data.samples, 1234567890123);
  EXPECT_EQ(state.data.pass_samples, 40);
  EXPECT_EQ(to_string(*state.data.train), "1800 tokens, hash fedcba9876543210");
  EXPECT_EQ(state.data.train->names_hash, 7u);
  EXPECT_FALSE(state.data.eval);
  EXPECT_EQ(state.data.tokenizer.kind, "sentencepiece");
  EXPECT_EQ(state.data.tokenizer.vocab_size, 61);
  EXPECT_EQ(state.data.tokenizer.hash, hash_of_vocabulary());
  EXPECT_EQ(state.data.class_names, (std::vector<std::string>{"ant", "caf\xC3\xA9"}));
  EXPECT_EQ(state.spikes, kSpikes);
  EXPECT_EQ(state.config.model.vocab, 61);
  EXPECT_EQ(testing::read_file(saved / "tokenizer.model"), "model");
}

TEST_F(RunCheckpoint, ATokenizerIsWrittenFromItsCheckedBytes) {
  using ::testing::HasSubstr;
  RunState state;
  state.data.tokenizer = {.kind = "sentencepiece"};
  testing::write_file(folder_ / "secret", "a key");
  testing::write_file(folder_ / "set/tokenizer.model", "model");
  const auto refusal = [&](const char* name) {
    return testing::message_of([&] { copy_tokenizer(folder_ / "set" / name, state, folder_.path()); });
  };
  std::filesystem::create_symlink("../secret", folder_ / "set/link");
  EXPECT_THAT(refusal("link"), HasSubstr("outside of its folder"));
  EXPECT_THAT(refusal("none"), HasSubstr("does not exist"));
  state.data.tokenizer.hash = 9;
  EXPECT_THAT(refusal("tokenizer.model"), HasSubstr("was changed during the run"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tokenizer.model"));
  state.data.tokenizer.hash = read_tokenizer_record("sentencepiece", folder_ / "set/tokenizer.model").hash;
  EXPECT_EQ(refusal("tokenizer.model"), "");
  EXPECT_EQ(testing::read_file(folder_ / "tokenizer.model"), "model");
}

TEST_F(RunCheckpoint, AnEvaluationIsNotedAfterwards) {
  const auto saved = save(7);
  EXPECT_TRUE(read_run_state(open_checkpoint_or_run(saved)).evaluation_due);
  note_evaluation(saved, 1.25);
  const RunState state = read_run_state(open_checkpoint(saved, Verify::kChecksums));
  EXPECT_EQ(state.eval_loss, 1.25);
  EXPECT_FALSE(state.evaluation_due);
  EXPECT_EQ(state.loss, 2.5);
}

TEST_F(RunCheckpoint, UnknownTokenizersAndHugePositionsAreRefused) {
  const auto saved = save(7);
  const auto refusal = [&](const char* key, const nlohmann::json& value) {
    Manifest manifest = read_manifest(saved);
    manifest.content[nlohmann::json::json_pointer(key)] = value;
    write_manifest(manifest, saved);
    return error_message([&] { read_run_state(open_checkpoint_or_run(saved)); });
  };
  EXPECT_THAT(refusal("/data/samples", std::numeric_limits<std::int64_t>::max()), HasSubstr("samples"));
  EXPECT_THAT(refusal("/tokenizer", "/etc/shadow"), HasSubstr("its tokenizer \"/etc/shadow\" is unknown"));
}

TEST_F(RunCheckpoint, OlderOnesKnowLessOfTheirData) {
  nlohmann::json content = open_checkpoint_or_run(save(7)).manifest.content;
  ASSERT_EQ(content.erase("class_names"), 1u);
  ASSERT_EQ(content.erase("evaluation_due"), 1u);
  ASSERT_EQ(content.erase("data"), 1u);
  ASSERT_EQ(content.erase("spikes"), 1u);
  PendingCheckpoint pending = store_.begin(8);
  testing::write_file(pending.folder() / "tokenizer.model", "model");
  const RunState state = read_run_state(open_checkpoint_or_run(pending.commit(content)));
  EXPECT_TRUE(state.data.class_names.empty());
  EXPECT_FALSE(state.evaluation_due);
  EXPECT_FALSE(state.spikes);
  // It is compatible with any data; its position follows from its job, and its tokenizer is the file beside
  // it.
  EXPECT_TRUE(state.data.is_of_older_build());
  EXPECT_EQ(state.data.samples, 8 * state.config.train.global_batch);
  EXPECT_EQ(state.data.tokenizer.kind, "sentencepiece");
  EXPECT_EQ(state.data.tokenizer.hash, read_tokenizer_record("sentencepiece", folder_ / "vocabulary").hash);
  EXPECT_EQ(state.state_hash, "00aa");
}

TEST_F(RunCheckpoint, NewestAreKept) {
  for (const std::int64_t step : {1, 2, 3, 4}) save(step, /*keep=*/2);
  EXPECT_EQ(store_.list(Verify::kSizes).size(), 2u);
  EXPECT_EQ(store_.latest(Verify::kSizes)->manifest.step, 4);
}

TEST_F(RunCheckpoint, ResumeChoosesAsTold) {
  EXPECT_EQ(find_resume(store_, {}), std::nullopt);
  const auto first = save(1), second = save(2);
  EXPECT_EQ(find_resume(store_, {})->folder, second);
  EXPECT_EQ(find_resume(store_, {Resume::Kind::kNever}), std::nullopt);
  EXPECT_EQ(find_resume(store_, from_word<Resume>(first.string()))->folder, first);
  EXPECT_EQ(find_resume(store_, from_word<Resume>((folder_ / "run").string()))->folder, second);
  EXPECT_THAT(error_message([&] { find_resume(store_, from_word<Resume>((folder_ / "absent").string())); }),
              ::testing::AllOf(HasSubstr("checkpoint.resume: "), HasSubstr("absent")));
}

TEST_F(RunCheckpoint, DamagedOnesArePassedOverOrRefused) {
  const auto first = save(1), second = save(2);
  auto bytes = testing::read_file(second / "model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  testing::write_file(second / "model.safetensors", bytes);
  EXPECT_EQ(find_resume(store_, {})->folder, first);
  EXPECT_THAT(error_message([&] { find_resume(store_, from_word<Resume>(second.string())); }),
              HasSubstr("model.safetensors"));
}

TEST_F(RunCheckpoint, NothingWholeIsNoReasonToStartAgain) {
  EXPECT_EQ(find_resume(store_, {}), std::nullopt);
  std::filesystem::remove(save(1) / "model.safetensors");
  EXPECT_THAT(error_message([&] { find_resume(store_, {}); }), HasSubstr("all of them are damaged"));
  EXPECT_THAT(error_message([&] { open_checkpoint_or_run(folder_ / "run"); }),
              HasSubstr("all of them are damaged"));
}

TEST_F(RunCheckpoint, OtherFoldersAreRefused) {
  EXPECT_THAT(error_message([&] { open_checkpoint_or_run(folder_.path()); }),
              HasSubstr("is not a checkpoint"));
  PendingCheckpoint pending = store_.begin(1);
  testing::write_file(pending.folder() / "notes.txt", "of somebody else");
  const auto folder = pending.commit({{"something", "else"}});
  EXPECT_THAT(error_message([&] { read_run_state(open_checkpoint_or_run(folder)); }),
              HasSubstr("is not the checkpoint of a training run"));
}

}  // namespace
}  // namespace trireme
