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
constexpr std::string_view kLstmShape = R"(name = "lstm"
layers = 2
hidden = 256              # units of a layer
seq_len = 128             # context in tokens
)";
constexpr std::string_view kImageShape = R"(name = "resnet18"
)";
constexpr std::string_view kPictureShape = R"(name = "unet"
size = "cifar-tiny"       # 0.45 M parameters; "cifar-small" draws better, but trains longer
)";

constexpr std::string_view kDetectorShape = R"(name = "yolox"
size = "nano"             # 0.9 M parameters; "tiny" and "s" find more, but train longer
)";

constexpr std::string_view kGpt[] = {"gpt"}, kLlama[] = {"llama"}, kBert[] = {"bert"}, kVit[] = {"vit"},
                           kUnet[] = {"unet"}, kAdaptable[] = {"gpt", "llama", "bert"};

constexpr JobTemplate kTemplates[] = {
    {.name = "gpt", .purpose = "train a GPT on text", .shape = kGptShape, .pretrained = kGpt},
    {.name = "llama", .purpose = "train a Llama on text", .shape = kLlamaShape, .pretrained = kLlama},
    {.name = "bert",
     .purpose = "train a BERT on text, by masked language modelling",
     .shape = kBertShape,
     .pretrained = kBert},
    {.name = "lstm", .purpose = "train an LSTM on text", .shape = kLstmShape, .pretrained = {}, .lr = 4e-3},
    {.name = "lora",
     .purpose = "adapt a pretrained language model to text, with low-rank adapters",
     .shape = {},
     .pretrained = kAdaptable,
     .trains_adapters = true,
     .fine_tuning_lr = 1e-3},
    {.name = "images",
     .purpose = "train a classifier on class folders of pictures",
     .shape = kImageShape,
     .pretrained = kVit,
     .data = TemplateData::kClasses},
    {.name = "diffusion",
     .purpose = "train a UNet that generates pictures, on class folders of pictures",
     .shape = kPictureShape,
     .pretrained = kUnet,
     .data = TemplateData::kPictures,
     .lr = 1e-3},
    {.name = "detection",
     .purpose = "train a YOLOX that finds objects, on pictures with boxes",
     .shape = kDetectorShape,
     .pretrained = {},
     .data = TemplateData::kBoxes,
     .uses_momentum = true,
     .lr = 0.02},
};

/// "key = value", with a comment in the column of all comments.
std::string commented(std::string_view key, const ConfigValue& value, std::string_view comment) {
  return fmt::format("{:<25} # {}\n", fmt::format("{} = {}", key, to_toml(value)), comment);
}

std::string model_section(const JobTemplate& job, const TemplateValues& values) {
  const bool is_pretrained = !values.pretrained.empty();
  std::string text = "[model]\n";
  if (is_pretrained) {
    text += commented("from", "hf:" + values.pretrained, "config.json sets the name and the shape");
    text += commented("init_from", values.pretrained, "weights");
    if (values.seq_len > 0) text += commented("seq_len", values.seq_len, "tokens of a sample");
  } else {
    text += job.shape;
  }
  if (values.classes == 0) return text;
  if (job.data == TemplateData::kPictures) {
    return text + commented("classes", values.classes, "the data's, and one for pictures without a class");
  }
  text += commented("classes", values.classes, "those of the data");
  return text + commented("new_head", is_pretrained, "the pretrained head is for other classes");
}

std::string picture_keys(const JobTemplate& job, const TemplateValues& values) {
  std::string text = "kind = \"images\"\n" + commented("train", values.train, "one folder for each class");
  const bool is_pretrained = !values.pretrained.empty();
  if (!is_pretrained) {
    const std::int64_t side = job.data == TemplateData::kPictures ? 32 : 64;
    text += commented("image_size", side, "side in pixels that the network sees");
  }
  if (values.normalisation) {
    text += commented("mean", values.normalisation->mean, "of preprocessor_config.json, as std");
    text += fmt::format("std = {}\n", to_toml(ConfigValue(values.normalisation->stddev)));
  }
  if (job.data == TemplateData::kPictures)
    text += "crop = \"padded\"           # the whole picture\npadding = 0\n";
  return text + commented("flip", true, "mirror half of the pictures");
}

std::string box_keys(const TemplateValues& values) {
  std::string text = "kind = \"detection\"\n" + commented("train", values.train, "pictures");
  if (!values.train_annotations.empty())
    text += commented("train_annotations", values.train_annotations, "COCO's file of objects");
  text += commented("image_size", std::int64_t{256}, "a multiple of 32; small objects need more");
  text += commented("mosaic", 0.5, "share of samples that join four pictures");
  text += commented("mosaic_off_steps", std::int64_t{200}, "last steps, without mosaics");
  return text + "scale = [0.5, 1.5]\nshift = 0.1\n" + commented("flip", true, "mirror half of the pictures");
}

std::string data_section(const JobTemplate& job, const TemplateValues& values) {
  std::string text = "\n[data]\n";
  if (job.data == TemplateData::kBoxes) {
    text += box_keys(values);
  } else if (job.data != TemplateData::kText) {
    text += picture_keys(job, values);
  } else if (values.has_conversations) {
    text += "kind = \"chat\"             # the loss counts the marked targets only\n" +
            commented("train", values.train, "written by `trireme data chat`") +
            commented("pack", true, "a row holds as many conversations as fit");
  } else {
    text += "kind = \"tokens\"\n" + commented("train", values.train, "written by `trireme data text`");
  }
  if (!values.eval.empty()) text += fmt::format("eval = {}\n", to_toml(ConfigValue(values.eval)));
  if (!values.eval_annotations.empty())
    text += fmt::format("eval_annotations = {}\n", to_toml(ConfigValue(values.eval_annotations)));
  if (values.class_dropout) {
    text += "\n[diffusion]\n";
    if (values.pretrained.empty()) {  // a pretrained pipeline brings its own target
      text += commented("prediction", std::string("v"), "small networks learn it better than the noise");
      text += commented("min_snr_gamma", 5.0, "weights of the noise levels (Hang et al. 2023)");
    }
    text += commented("class_dropout", 0.1, "samples without their class, for guidance when sampling");
  }
  return text;
}

std::string train_section(const JobTemplate& job, const TemplateValues& values) {
  std::string text = "\n[train]\n";
  text += commented("steps", std::int64_t{job.data == TemplateData::kPictures ? 4000 : 1000}, "updates");
  text += commented("global_batch", kTemplateBatch, "samples of a step, over all ranks");
  text += commented("micro_batch", values.micro_batch, "samples of a forward pass; fewer need less memory");
  text += "seed = 1\n";
  if (!values.eval.empty()) text += commented("eval_every", std::int64_t{250}, "steps");
  if (job.data == TemplateData::kPictures) {
    if (!values.eval.empty()) text += commented("eval_batches", std::int64_t{16}, "of an evaluation");
    text += commented("ema", 0.999, "averages, for `trireme sample --ema --images 16 --grid grid.png`");
  }
  if (job.data == TemplateData::kBoxes)
    text += commented("ema", 0.998, "averages, for `trireme detect --ema`");
  if (job.trains_adapters) text += "lora = { rank = 8, alpha = 16, targets = [\"all-linear\"] }\n";
  return text;
}

}  // namespace

std::span<const JobTemplate> job_templates() {
  return kTemplates;
}

std::string job_text(const JobTemplate& job, const TemplateValues& values) {
  std::string text =
      fmt::format("# A job to {}. `trireme train --help-keys` explains all keys.\n", job.purpose);
  text += model_section(job, values) + data_section(job, values) + train_section(job, values);
  const double lr = values.pretrained.empty() ? job.lr : job.fine_tuning_lr;
  const bool decays = !job.trains_adapters && job.data != TemplateData::kPictures;
  const char* const decay = job.uses_momentum ? "0.0005" : decays ? "0.1" : "0.0";
  text += fmt::format("\n[optimizer]\nname = \"{}\"\n", job.uses_momentum ? "sgd" : "adamw");
  text += commented("lr", lr, "highest learning rate");
  if (job.uses_momentum) text += "momentum = 0.9\nnesterov = true\n";
  text += fmt::format("weight_decay = {}\nschedule = \"cosine\"\nwarmup_steps = 50\n", decay);
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
