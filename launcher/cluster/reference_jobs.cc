#include "launcher/cluster/reference_jobs.h"

#include <fmt/core.h>

#include <span>
#include <string_view>

namespace trireme {
namespace {

constexpr std::string_view kAllModes[] = {"fp32", "bf16", "fp16", "tf32", "fp8"};
constexpr std::string_view kTwoModes[] = {"fp32", "bf16"};
constexpr std::string_view kSixteenBitModes[] = {"bf16", "fp16"};
constexpr std::string_view kLlamaModes[] = {"bf16", "fp8"};
constexpr std::string_view kImageModes[] = {"bf16", "fp16", "tf32"};

struct ReferenceJob {
  std::string_view model;  // of [model], in the form of an inline table
  int micro_batch;         // two of them are a step
  std::span<const std::string_view> modes;
  int image_size = 0;  // 0: a model of tokens
  std::string_view optimizer = "adamw";
};

constexpr ReferenceJob kCpuJobs[] = {
    {"name = 'gpt', layers = 1, hidden = 64, heads = 2, vocab = 256, seq_len = 64", 4, kAllModes},
    {"name = 'gpt', layers = 1, hidden = 256, heads = 4, vocab = 2048, seq_len = 128, dropout = 0.1", 4,
     kAllModes},
    {"name = 'gpt', layers = 1, hidden = 640, heads = 10, vocab = 8192, seq_len = 256", 2, kAllModes},
    {"name = 'llama', layers = 1, hidden = 128, heads = 4, ffn = 352, vocab = 512, seq_len = 128", 4,
     kTwoModes},
    {"name = 'llama', layers = 1, hidden = 512, heads = 8, ffn = 1376, vocab = 4096, seq_len = 256", 2,
     kTwoModes},
    {"name = 'bert', layers = 1, hidden = 128, heads = 2, vocab = 512, seq_len = 64", 4, kTwoModes},
    {"name = 'bert', layers = 1, hidden = 512, heads = 8, vocab = 4096, seq_len = 192", 4, kTwoModes},
    {"name = 'vit', layers = 1, hidden = 192, heads = 3, ffn = 768, patch = 8, classes = 10", 4, kTwoModes,
     64},
    {"name = 'vit', layers = 1, hidden = 384, heads = 6, ffn = 1536, patch = 8, classes = 50", 4, kTwoModes,
     112},
    {"name = 'resnet18', classes = 50", 4, kTwoModes, 64, "sgd"},
    {"name = 'resnet18', classes = 10", 8, kTwoModes, 32, "sgd"},
    {"name = 'resnet50', classes = 100", 2, kTwoModes, 64, "sgd"},
};

// Heads of 64 and of 128, vocabularies of a few and of many rows; a small model whose calls are launches.
constexpr ReferenceJob kGpuJobs[] = {
    {"name = 'gpt', layers = 1, hidden = 256, heads = 4, vocab = 4096, seq_len = 256, dropout = 0.1", 8,
     kAllModes},
    {"name = 'gpt', layers = 1, hidden = 1024, heads = 16, vocab = 32000, seq_len = 1024", 16, kAllModes},
    {"name = 'gpt', layers = 1, hidden = 2048, heads = 16, vocab = 64000, seq_len = 2048", 2, kAllModes},
    {"name = 'llama', layers = 1, hidden = 1024, heads = 16, kv_heads = 4, ffn = 4096, vocab = 128000, "
     "seq_len = 1024",
     16, kLlamaModes},
    {"name = 'llama', layers = 1, hidden = 2048, heads = 16, kv_heads = 4, ffn = 6144, vocab = 50304, "
     "seq_len = 1024",
     16, kLlamaModes},
    {"name = 'bert', layers = 1, hidden = 512, heads = 8, vocab = 16384, seq_len = 256", 128,
     kSixteenBitModes},
    {"name = 'bert', layers = 1, hidden = 1024, heads = 16, vocab = 32768, seq_len = 128", 128,
     kSixteenBitModes},
    {"name = 'vit', layers = 1, hidden = 384, heads = 6, ffn = 1536, patch = 16, classes = 100", 128,
     kSixteenBitModes, 224},
    {"name = 'vit', layers = 1, hidden = 768, heads = 12, ffn = 3072, patch = 16, classes = 1000", 64,
     kSixteenBitModes, 224},
    {"name = 'resnet18', classes = 1000", 128, kImageModes, 224, "sgd"},
    {"name = 'resnet50', classes = 100", 64, kImageModes, 160, "sgd"},
};

std::string text_of(const ReferenceJob& job, std::string_view mode) {
  return fmt::format(
      "model = {{ {} }}\ndata = {{ kind = 'synthetic'{} }}\ntrain = {{ global_batch = {}, micro_batch = {} "
      "}}\n"
      "optimizer = {{ name = '{}' }}\nprecision = {{ mode = '{}' }}\n",
      job.model, job.image_size > 0 ? fmt::format(", image_size = {}", job.image_size) : "",
      2 * job.micro_batch, job.micro_batch, job.optimizer, mode);
}

}  // namespace

std::vector<std::string> reference_jobs(DeviceType type) {
  const std::span<const ReferenceJob> jobs =
      traits(type).host_memory ? std::span<const ReferenceJob>(kCpuJobs) : kGpuJobs;
  std::vector<std::string> texts;
  for (const ReferenceJob& job : jobs) {
    for (const std::string_view mode : job.modes) texts.push_back(text_of(job, mode));
  }
  return texts;
}

}  // namespace trireme
