#include "launcher/commands/help_examples.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace trireme {
namespace {

struct HelpExample {
  const char* command;
  const char* subcommand;  // "": of the command itself
  std::string_view line;
};

// A test checks that every command is here, with options that it has.
constexpr HelpExample kHelpExamples[] = {
    {"init", "", "trireme init gpt --data data --out job.toml"},
    {"train", "", "mpirun -np 2 trireme train job.toml --out out/job --set train.steps=1000"},
    {"plan", "", "trireme plan job.toml --ranks 8 --set parallel.zero=2"},
    {"calibrate", "", "trireme calibrate runs.csv --cluster cluster.toml --out calibrated.toml"},
    {"predict", "", "trireme predict runs.csv --cluster cluster.toml --out predicted.csv"},
    {"run", "", "trireme run job.toml --ranks 2:4 --out out/job"},
    {"report", "", "trireme report out/job --out job.html"},
    {"watch", "", "trireme watch out --listen 127.0.0.1:8080"},
    {"top", "", "trireme top out/job --every 2"},
    {"eval", "", "trireme eval out/job --json"},
    {"export", "", "trireme export out/job --format hf --out model"},
    {"checkpoint", "", "trireme checkpoint list out/job"},
    {"checkpoint", "list", "trireme checkpoint list out/job"},
    {"checkpoint", "verify", "trireme checkpoint verify out/job"},
    {"checkpoint", "diff", "trireme checkpoint diff out/one out/two"},
    {"checkpoint", "prune", "trireme checkpoint prune out/job --keep 3"},
    {"sample", "", "trireme sample out/job --prompt \"Once upon a time\" --tokens 200"},
    {"detect", "", "trireme detect out/job photos/*.jpg --out found"},
    {"data", "", "trireme data text notes --out data"},
    {"data", "text", "trireme data text notes --out data --train-tokenizer 8000"},
    {"data", "documents", "trireme data documents reviews.tsv --out data"},
    {"data", "chat", "trireme data chat chats.jsonl --tokenizer Qwen2.5-0.5B-Instruct --out data --show 2"},
    {"doctor", "", "trireme doctor --measure cluster.toml"},
};

}  // namespace

void add_help_examples(CLI::App& app) {
  for (const auto& [name, subcommand, line] : kHelpExamples) {
    CLI::App* command = app.get_subcommand(name);
    if (*subcommand != '\0') command = command->get_subcommand(subcommand);
    const std::string notes = command->get_footer();
    command->footer(fmt::format("{}Example:\n  {}", notes.empty() ? "" : notes + "\n\n", line));
  }
}

}  // namespace trireme
