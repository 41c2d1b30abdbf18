// The keys of [data].
#include "launcher/keys/key_rules.h"
#include "launcher/keys/key_scopes.h"
#include "launcher/keys/section_keys.h"

namespace trireme {
namespace {

void add_image_keys(std::vector<ConfigKey>& keys) {
  using D = DataSection;
  SectionKeys<D>(keys, "data", &JobConfig::data, {for_image_models()})
      .add("image_size", &D::image_size, from_to(0, 4096),
           "Side of the square that the network sees, in pixels. 0: what it was published for, 224 or 32.")
      .add("crop", &D::crop,
           "Part of a picture in training. `resized`: of random place, area and aspect. `padded`: the middle "
           "square, moved by up to `padding` pixels. `center`: the middle square, as in evaluation.")
      .add("crop_area", &D::crop_area, each_within(0, 1), "Least and largest area, in parts of the picture.")
      .only(for_crop(ViewOptions::Crop::kRandomResized))
      .add("crop_aspect", &D::crop_aspect, each_within(0, 100), "Least and largest width / height.")
      .only(for_crop(ViewOptions::Crop::kRandomResized))
      .add("center", &D::center, each_within(0, 1),
           "Side of the middle square, in parts of the picture's shorter side; 0.875 is usual for "
           "photographs.")
      .add("padding", &D::padding, from_to(0, 4096), "Pixels of the square that the network sees.")
      .only(for_crop(ViewOptions::Crop::kPadded))
      .add("flip", &D::flip, any(), "Half of the training samples are mirrored.")
      .add("mean", &D::mean, each_within(-1e6, 1e6),
           "Subtracted from red, green and blue in [0, 1]; the default is that of ImageNet.")
      .add("std", &D::stddev, each_within(0, 1e6), "What they are divided by then.")
      .add("mixup", &D::mixup, from_to_below(0, 1000),
           "MixUp: alpha of the Beta distribution that the proportions are drawn from. 0: off.")
      .add("mosaic", &D::mosaic, from_to(0, 1),
           "Mosaic: probability that a training sample is patched together from four. 0: off.")
      .add_bytes(
          "cache", &D::cache, at_least(0),
          "Bytes of memory that a rank keeps decoded pictures in, for sets that fit; reserved before step 1. "
          "Files that hold pictures uncompressed need none. 0: none. The results do not change.")
      .add("on_bad_image", &D::on_bad_image,
           "A picture that cannot be decoded ends the job, or is left out, named and counted; in training "
           "the next good one stands in for it.")
      .add("max_pixels", &D::max_pixels, count_from(1),
           "A picture whose header promises more counts as bad; nothing is allocated for it.");
}

}  // namespace

void add_data_keys(std::vector<ConfigKey>& keys) {
  using D = DataSection;
  SectionKeys<D>(keys, "data", &JobConfig::data)
      .add("kind", &D::kind,
           "`tokens`: shards made by `trireme data text`, for GPT. `documents`: texts of their own, made by "
           "`trireme data documents`, for BERT. `images`: labelled pictures, for ResNets, ViTs and CCTs. "
           "`synthetic`: random tokens or images, for speed measurements.")
      .add("train", &D::train, any(),
           "A `.bin` token shard, a folder of them, a pattern such as `shards/fineweb_train_*.bin`, or a "
           "folder "
           "that `trireme data text` wrote (its train.bin). Of images: a folder of class folders of JPEG and "
           "PNG files, or a folder of CIFAR's "
           "or MNIST's binary files. Relative to the working directory.")
      .add("eval", &D::eval, any(),
           "The same for evaluation (eval.bin, or the test files, of such a folder). Empty: no evaluation.")
      .add("allow_eval_in_train", &D::allow_eval_in_train, any(),
           "Files of `eval` may be among those of `train`, under whatever names and links, or as copies. "
           "false: "
           "they are refused; copies of less than 1 % of them are a warning.")
      .add_string_or_number(
          "workers", &D::workers, "\"auto\" or a number from 0 to 256",
          "Threads a rank that read and decode ahead of the training. `auto`: for images as "
          "many as `parallel.threads`, else 1. 0: samples are read when a step needs them. "
          "The results do not change.");
  SectionKeys<D>(keys, "data", &JobConfig::data, {for_masked_models()})
      .add(
          "mask_probability", &D::mask_probability, each_within(0, 1),
          "Probability of a token to be a target: 80 % of them are masked, 10 % become random tokens. A step "
          "whose batch has no target is an update with zero gradients and a loss of 0.")
      .add("mask_token", &D::mask_token, count_from(0),
           "The id that stands for a masked token, 103 of BERT's own vocabulary. 0: the last one of "
           "`model.vocab`, which has one more than the data's tokenizer where it is not given.")
      .add("pack", &D::pack, any(),
           "`documents`: a row holds as many as fit, which do not see each other. false: each has a row of "
           "its own, "
           "padded.")
      .add("class_token", &D::class_token, count_from(0),
           "`documents`: the id put in front of each, where its class is read, 101 of BERT's own vocabulary. "
           "0: that "
           "of `mask_token`.");
  add_image_keys(keys);
}

}  // namespace trireme
