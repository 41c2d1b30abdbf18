// Fuzzes the reader of job files and of --set.
#include <sstream>

#include "launcher/config/config.h"
#include "launcher/keys/job_file.h"
#include "tests/fuzz/reader.h"

namespace trireme::fuzz {
namespace {

constexpr const char* kJob = "[model]\nsize = \"124m\"\n[data]\nkind = \"synthetic\"\n";

/// The resolved text of a job must parse to the same job, because checkpoints store it.
void check_resolved(const JobConfig& config) {
  const std::string text = to_toml(config);
  require(to_toml(parse_written_config(text, "resolved")) == text,
          "the resolved job differs when read again");
}

int fuzz_job_file(const std::uint8_t* data, std::size_t size) {
  const auto path = input_file("job.toml", as_text(data, size));
  JobConfig config;
  if (taken([&] { config = load_config(path, {}); })) check_resolved(config);
  return 0;
}

std::vector<std::string> job_files() {
  std::vector<std::string> texts;
  for (const char* more :
       {"", "[parallel]\npipeline = 2\nschedule = \"interleaved\"\nchunks = 2\n",
        "[precision]\nmode = \"fp16\"\nops = { attention = \"fp32\" }\n[train]\nsteps = 100\n",
        "[optimizer]\nname = \"sgd\"\nlr = 1e-2\n[parallel]\nmemory_limit = \"1.5 GiB\"\nzero = 3\n"}) {
    texts.push_back(std::string(kJob) + more);
    texts.push_back(to_toml(parse_config(texts.back(), "job.toml", {})));
  }
  texts.push_back(
      "# a ResNet\n[model]\nname = 'resnet20'\n[data]\nkind = \"images\"\ntrain = \"\"\"a\"\"\"\n");
  return texts;
}

int fuzz_overrides(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> overrides;
  std::istringstream lines{std::string(as_text(data, size))};
  for (std::string line; std::getline(lines, line, '\0');) overrides.push_back(line);
  JobConfig config;
  if (taken([&] { config = parse_config(kJob, "job.toml", overrides); })) check_resolved(config);
  return 0;
}

std::vector<std::string> overrides() {
  const std::string zero(1, '\0');
  return {"train.steps=5" + zero + "optimizer.betas=[0.9, 0.99]" + zero + "data.eval=a/b",
          "precision.mode=\"bf16\"" + zero + "precision.ops.attention=fp32",
          "precision.ops={ attention = \"fp32\", layer_norm = 'fp32' }" + zero + "precision.mode=fp16",
          "parallel.memory_limit=3 GiB" + zero + "model.dropout=0.1"};
}

}  // namespace

const Reader kJobFile{"job_file", fuzz_job_file, job_files};
const Reader kOverrides{"overrides", fuzz_overrides, overrides};

}  // namespace trireme::fuzz
