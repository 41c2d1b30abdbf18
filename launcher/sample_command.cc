// trireme sample CHECKPOINT --prompt TEXT --tokens N [--seed S] [--temperature T] [--top-k K] [--threads N]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "launcher/build.h"
#include "launcher/commands.h"
#include "launcher/machine.h"
#include "launcher/run_checkpoint.h"
#include "launcher/sampler.h"
#include "parallel/checkpoint_state.h"
#include "parallel/comm/local.h"
#include "runtime/data/tokenizer.h"

namespace trireme {
namespace {

struct SampleArguments {
  std::string checkpoint;
  std::string prompt;
  std::string tokenizer;
  int threads = 0;
  SamplingOptions sampling{.num_tokens = 100, .temperature = 0.8, .seed = 0};
};

std::unique_ptr<Tokenizer> find_tokenizer(const SampleArguments& arguments, const Checkpoint& checkpoint,
                                          const RunState& state) {
  if (!arguments.tokenizer.empty()) return load_tokenizer(arguments.tokenizer);
  TRIREME_CHECK(
      !state.tokenizer.empty(),
      "{} does not say how its tokens were made: give --tokenizer bytes, or the path of a sentencepiece "
      "model",
      checkpoint.folder.string());
  if (state.tokenizer == "bytes") return make_byte_tokenizer();
  return load_sentencepiece(checkpoint.folder / kTokenizerModelFile);
}

std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const std::string& prompt,
                                        std::int64_t vocab) {
  // An empty prompt asks for the beginning of a document.
  auto tokens = prompt.empty() ? tokenizer.document_separator() : tokenizer.encode(prompt);
  for (const std::int32_t token : tokens) {
    TRIREME_CHECK(token < vocab,
                  "the tokenizer gives token {}, the model's vocabulary has {}: they do not belong together",
                  token, vocab);
  }
  return tokens;
}

ExitCode run_sample(const SampleArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1, "`trireme sample` runs alone: leave out mpirun");
  const Checkpoint checkpoint = open_checkpoint_or_run(arguments.checkpoint);
  const RunState state = read_run_state(checkpoint);
  const ModelSection& model = state.config.model;
  const auto tokenizer = find_tokenizer(arguments, checkpoint, state);
  const auto prompt = encode_prompt(*tokenizer, arguments.prompt, model.vocab);

  const int threads = arguments.threads > 0 ? arguments.threads : count_cores().usable();
  // Plain SGD keeps no state: only the parameters take memory.
  Engine engine(build_blocks(model), LocalWorld(1).communicator(0),
                {.threads = threads, .optimizer = {.kind = OptimizerConfig::Kind::kSgd}});
  load_state(engine, checkpoint.folder, StateParts::kModel);
  SamplingOptions sampling = arguments.sampling;
  sampling.context = model.seq_len;
  sampling.vocab = model.vocab;
  auto tokens = generate(engine, prompt, sampling);
  // Decoded together: a subword at the seam may be written differently on its own.
  if (!arguments.prompt.empty()) tokens.insert(tokens.begin(), prompt.begin(), prompt.end());
  fmt::print("{}\n", tokenizer->decode(tokens));
  return ExitCode::kDone;
}

}  // namespace

void add_sample_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<SampleArguments>();
  CLI::App* command = app.add_subcommand("sample", "Generate text with a trained model");
  SamplingOptions& sampling = arguments->sampling;
  command->add_option("CHECKPOINT", arguments->checkpoint, "A checkpoint, or the output folder of a run")
      ->required();
  command->add_option("--prompt", arguments->prompt, "Text to continue");
  command->add_option("--tokens", sampling.num_tokens, "Tokens to generate (default: 100)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 31));
  command->add_option("--seed", sampling.seed, "The same seed gives the same text (default: 0)");
  command->add_option("--temperature", sampling.temperature, "0: always the likeliest token (default: 0.8)")
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--top-k", sampling.top_k, "Choose among the K likeliest tokens (default: 0, all)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--threads", arguments->threads, "Host threads (default: 0, the cores it may use)")
      ->check(CLI::Range(0, 4096));
  command->add_option("--tokenizer", arguments->tokenizer,
                      "\"bytes\" or a sentencepiece model, over what the checkpoint says");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_sample(*arguments, launch); };
  });
}

}  // namespace trireme
