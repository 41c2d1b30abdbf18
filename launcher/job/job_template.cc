#include "launcher/job/job_template.h"

#include <fmt/core.h>

#include "launcher/keys/config_keys.h"

namespace trireme {
namespace {

constexpr std::string_view kGptShape = R"(name = "gpt"
layers = 4                # Transformer blocks
hidden = 192              # width of the residual stream
heads = 6
seq_len = 128             # context in tokens
)";
constexpr std::string_view kLlamaShape = R"(name = "llama"
layers = 4                # Transformer blocks
hidden = 192              # width of the residual stream
heads = 6
kv_heads = 2              # heads of keys and values (grouped-query attention)
seq_len = 128             # context in tokens
)";
constexpr std::string_view kBertShape = R"(name = "bert"
layers = 2                # Transformer blocks
hidden = 128              # width of the residual stream
heads = 2
seq_len = 64              # context in tokens
)";
constexpr std::string_view kImageShape = R"(name = "resnet18"
)";

constexpr JobTemplate kTemplates[] = {
    {.name = "gpt", .purpose = "train a GPT on text", .shape = kGptShape},
    {.name = "llama", .purpose = "train a Llama on text", .shape = kLlamaShape},
    {.name = "bert", .purpose = "train a BERT on text, by masked language modelling", .shape = kBertShape},
    {.name = "lora",
     .purpose = "adapt a pretrained language model to text, with low-rank adapters",
     .trains_adapters = true,
     .fine_tuning_lr = 1e-3},
    {.name = "images",
     .purpose = "train a classifier on class folders of pictures",
     .shape = kImageShape,
     .trains_images = true},
};

std::string model_section(const JobTemplate& job, const TemplateValues& values) {
  std::string text = "[model]\n";
  if (values.pretrained.empty()) {
    text += job.shape;
  } else {
    text +=
        fmt::format("from = {:<18} # config.json sets the name and the shape\ninit_from = {:<13} # weights\n",
                    to_toml(ConfigValue("hf:" + values.pretrained)), to_toml(ConfigValue(values.pretrained)));
  }
  return text;
}

std::string data_section(const JobTemplate& job, const TemplateValues& values) {
  std::string text = "\n[data]\n";
  const auto path = [](const std::string& folder) { return to_toml(ConfigValue(folder)); };
  if (job.trains_images) {
    text += fmt::format(
        "kind = \"images\"\ntrain = {:<17} # one folder for each class\nimage_size = 64           # side in "
        "pixels that the network sees\nflip = true               # mirror half of the pictures\n",
        path(values.train));
  } else if (values.has_conversations) {
    text += fmt::format(
        "kind = \"chat\"             # the loss counts the marked targets only\ntrain = {:<17} # written by "
        "`trireme data chat`\npack = true               # a row holds as many conversations as fit\n",
        path(values.train));
  } else {
    text += fmt::format("kind = \"tokens\"\ntrain = {:<17} # written by `trireme data text`\n",
                        path(values.train));
  }
  if (!values.eval.empty()) text += fmt::format("eval = {}\n", path(values.eval));
  return text;
}

}  // namespace

std::span<const JobTemplate> job_templates() {
  return kTemplates;
}

std::string job_text(const JobTemplate& job, const TemplateValues& values) {
  std::string text =
      fmt::format("# A job to {}. `trireme train --help-keys` explains all keys.\n", job.purpose);
  text += model_section(job, values) + data_section(job, values);
  text += fmt::format(
      "\n[train]\n"
      "steps = 1000\n"
      "global_batch = {:<10} # samples of a step, over all ranks\n"
      "micro_batch = {:<11} # samples of a forward pass; fewer need less memory\n"
      "seed = 1\n",
      kTemplateBatch, values.micro_batch);
  if (!values.eval.empty()) text += "eval_every = 250          # steps\n";
  if (job.trains_adapters)
    text += "lora = { rank = 8, alpha = 16, targets = [\"attention.*\", \"mlp.*\"] }\n";
  text += fmt::format(
      "\n[optimizer]\n"
      "name = \"adamw\"\n"
      "lr = {:<20} # highest learning rate\n"
      "weight_decay = {}\n"
      "schedule = \"cosine\"\n"
      "warmup_steps = 50\n",
      to_toml(ConfigValue(values.pretrained.empty() ? job.lr : job.fine_tuning_lr)),
      job.trains_adapters ? "0.0" : "0.1");
  if (values.sixteen_bits)
    text += "\n[precision]\nmode = \"bf16\"             # fp32 master weights, products in bf16\n";
  return text +
         "\n[checkpoint]\n"
         "every = 250               # steps; the same command resumes from the newest checkpoint\n"
         "keep = 2\n"
         "\n[log]\n"
         "every = 10                # steps between progress lines\n";
}

}  // namespace trireme
