// The keys of [data].
#include "launcher/keys/key_rules.h"
#include "launcher/keys/key_scopes.h"
#include "launcher/keys/section_keys.h"

namespace trireme {
namespace {

void add_image_keys(std::vector<ConfigKey>& keys) {
  using D = DataSection;
  SectionKeys<D>(keys, "data", &JobConfig::data, {for_picture_models()})
      .add("image_size", &D::image_size, from_to(0, 4096),
           "Side of the square input image in pixels. 0: as published, 224 or 32; for YOLOX 640, or 416 for "
           "nano and tiny. YOLOX needs a multiple of 32.")
      .add("flip", &D::flip, any(), "Mirror half of the training samples.")
      .add_bytes(
          "cache", &D::cache, at_least(0),
          "Memory in bytes in which a rank caches decoded images; useful if the set fits. Reserved before "
          "step 1. Files of uncompressed images need none. 0: no cache. The results do not change.")
      .add("max_pixels", &D::max_pixels, count_from(1),
           "Images whose header states more pixels count as bad; no memory is allocated for them.");
  SectionKeys<D>(keys, "data", &JobConfig::data, {for_augmented_models()})
      .add("mean", &D::mean, each_within(-1e6, 1e6),
           "Subtracted from red, green and blue values in [0, 1]. Default: ImageNet's.")
      .add("std", &D::stddev, each_within(0, 1e6), "Divides the values after `mean` is subtracted.")
      .add("mixup", &D::mixup, from_to_below(0, 1000),
           "MixUp. Classifiers: alpha of the Beta distribution of the mixing proportions. Detectors: "
           "probability that a training sample is the mean of two, with the boxes of both. 0: off.")
      .add("mosaic", &D::mosaic, from_to(0, 1),
           "Mosaic: probability that a training sample is composed of four images, with their boxes. 0: "
           "off.");
  SectionKeys<D>(keys, "data", &JobConfig::data, {for_image_models()})
      .add("crop", &D::crop,
           "Crop of training images. `resized`: random position, area and aspect ratio. `padded`: the centre "
           "square, shifted by up to `padding` pixels. `center`: the centre square, as in evaluation.")
      .add("crop_area", &D::crop_area, each_within(0, 1),
           "Least and largest area, as fractions of the image.")
      .only(for_crop(ViewOptions::Crop::kRandomResized))
      .add("crop_aspect", &D::crop_aspect, each_within(0, 100),
           "Least and largest aspect ratio (width / height).")
      .only(for_crop(ViewOptions::Crop::kRandomResized))
      .add("center", &D::center, each_within(0, 1),
           "Side of the centre square, as a fraction of the image's shorter side; 0.875 is usual for "
           "photographs.")
      .add("padding", &D::padding, from_to(0, 4096), "Maximum shift, in pixels of the input image.")
      .only(for_crop(ViewOptions::Crop::kPadded))
      .add("on_bad_image", &D::on_bad_image,
           "Reaction to an image that cannot be decoded. `fail`: ends the job. `skip`: leaves the image out, "
           "logs its name and counts it; in training the next good image replaces it.");
}

void add_detection_keys(std::vector<ConfigKey>& keys) {
  using D = DataSection;
  SectionKeys<D>(keys, "data", &JobConfig::data, {for_detectors()})
      .add(
          "train_annotations", &D::train_annotations, any(),
          "COCO's file of objects (`instances_*.json`) in the pictures of `train`. Empty: a text file beside "
          "each picture, or in a folder `labels` beside `images`, with lines `class x y width height`, as "
          "fractions of the picture, and the class names in classes.txt.")
      .add("eval_annotations", &D::eval_annotations, any(), "The same for `eval`.")
      .add("mosaic_off_steps", &D::mosaic_off_steps, count_from(0),
           "Number of last steps without Mosaic and MixUp, in which the loss has the L1 term of the boxes. "
           "Counted in samples, of which a step has `train.global_batch`.")
      .add("multi_scale", &D::multi_scale, from_to(32, 4096),
           "Sides of training samples in pixels, multiples of 32; one is drawn at random every "
           "`multi_scale_steps` steps. Evaluations use `image_size`. Empty: `image_size`.")
      .add("multi_scale_steps", &D::multi_scale_steps, count_from(1), "See `multi_scale`.")
      .add(
          "scale", &D::scale, each_within(0, 16),
          "Least and largest random scale of pictures and mosaics; 1 is the largest size that fits. [0.1, 2] "
          "is usual with Mosaic.")
      .add("mixup_scale", &D::mixup_scale, each_within(0, 16), "The same for the second picture of MixUp.")
      .add("shift", &D::shift, from_to(0, 0.5),
           "Largest random shift in both directions, as a fraction of the sample's side.")
      .add("hsv", &D::hsv, from_to(0, 1),
           "Largest random changes of hue, saturation and value, each as a fraction of its range; [0.015, "
           "0.7, 0.4] is usual.")
      .add("max_boxes", &D::max_boxes, from_to(1, 4096),
           "Objects of a sample that the loss can have; of more, the largest ones are used.");
}

void add_diffusion_keys(std::vector<ConfigKey>& keys) {
  using D = DiffusionSection;
  SectionKeys<D>(keys, "diffusion", &JobConfig::diffusion, {for_diffusion_models()})
      .add("schedule", &D::schedule,
           "Betas of the 1000 timesteps. `linear`: in equal steps (DDPM). `scaled_linear`: the square roots "
           "in "
           "equal steps (Stable Diffusion). `cosine`: from a squared cosine; `betas` has no effect.")
      .add("betas", &D::betas, from_to_below(0, 1),
           "First and last beta. 0: 0.0001 and 0.02 for `linear`, 0.00085 and 0.012 for `scaled_linear`.")
      .add(
          "prediction", &D::prediction,
          "What the network predicts. `epsilon`: the noise. `x0`: the clean picture. `v`: signal times noise "
          "minus noise level times picture (Salimans and Ho 2022).")
      .add("min_snr_gamma", &D::min_snr_gamma, at_least(0),
           "Weights of the timesteps in the training loss (min-SNR, Hang et al. 2023); 5 is usual. 0: all "
           "timesteps have the weight 1, as in every evaluation.")
      .add("class_dropout", &D::class_dropout, from_to_below(0, 1),
           "Probability that a training sample loses its class or its condition, so that samples can be made "
           "with guidance; 0.1 is usual. The lost class is the last one of `model.classes`, which then has "
           "one "
           "more than the data. The lost condition is `null_condition` of the shards, or zeros.")
      .add("steps_offset", &D::steps_offset, from_to(0, NoiseSchedule::kNumTimesteps - 1),
           "Added to the timesteps of the samplers ddpm and ddim; 1 in Stable Diffusion. Training does not "
           "read it.")
      .add("set_alpha_to_one", &D::set_alpha_to_one, any(),
           "The last step of the sampler ddim removes all noise. false: it keeps the noise of timestep 0, as "
           "Stable Diffusion does. Training does not read it.");
}

}  // namespace

void add_data_keys(std::vector<ConfigKey>& keys) {
  using D = DataSection;
  SectionKeys<D>(keys, "data", &JobConfig::data)
      .add(
          "kind", &D::kind,
          "`tokens`: shards written by `trireme data text`, for GPTs, Llamas, BERTs and LSTMs. `documents`: "
          "separate texts, written by `trireme data documents`, for BERTs. `chat`: conversations with marked "
          "targets, written by `trireme data chat`, for GPTs and Llamas. `images`: labelled images, for "
          "ResNets, ViTs, CCTs and UNets. `detection`: images with boxes of objects, for YOLOX. `latents`: "
          "shards written by examples/latents.py, for UNets. "
          "`synthetic`: random tokens or images, to measure speed.")
      .add("train", &D::train, any(),
           "Tokens: a `.bin` shard, a folder of shards, a pattern such as `shards/fineweb_train_*.bin`, or a "
           "folder written by `trireme data text` (its train.bin). Images: a folder of class folders with "
           "JPEG and PNG files, or a folder with CIFAR's or MNIST's binary files. Detection: a folder of "
           "pictures. Relative to the working "
           "directory.")
      .add("eval", &D::eval, any(),
           "The same for evaluation; such folders are read for their eval.bin, or their test files. Empty: "
           "no evaluation.")
      .add("allow_eval_in_train", &D::allow_eval_in_train, any(),
           "Permit files of `eval` among the files of `train`, under any name or link, or as copies. If "
           "false, they are refused; copies that are less than 1 % of them cause a warning.")
      .add_string_or_number("workers", &D::workers, "\"auto\" or a number from 0 to 256",
                            "Threads per rank that read and decode samples ahead of training. `auto`: for "
                            "images as many as `parallel.threads`, up to 16; otherwise 1. 0: samples are "
                            "read when a step needs them. The results do not change.");
  SectionKeys<D>(keys, "data", &JobConfig::data, {for_document_models()})
      .add("pack", &D::pack, any(),
           "`documents`, `chat`: a row holds as many documents as fit; attention does not cross documents, "
           "and positions restart. false: one padded row per document.")
      .add("too_long", &D::too_long,
           "`chat`: treatment of conversations longer than `model.seq_len`. `cut_end` and `cut_beginning` "
           "remove tokens there; `drop` leaves the conversation out. Conversations without a remaining "
           "target are left out. The run logs the numbers.");
  SectionKeys<D>(keys, "data", &JobConfig::data, {for_masked_models()})
      .add("mask_probability", &D::mask_probability, each_within(0, 1),
           "Share of a row's tokens that are targets, rounded, and at least one token. 80 % of the targets "
           "are "
           "masked, 10 % become random tokens. A step whose batch has no target makes an update with zero "
           "gradients and a loss of 0.")
      .add("mask_token", &D::mask_token, count_from(0),
           "Id of the mask token; 103 in BERT's vocabulary. 0: the last id of `model.vocab`, whose default "
           "has one more than the data's tokenizer.")
      .add("class_token", &D::class_token, count_from(0),
           "`documents`: id that precedes each document, at which the class is read; 101 in BERT's "
           "vocabulary. 0: the id of `mask_token`.");
  add_image_keys(keys);
  add_detection_keys(keys);
  add_diffusion_keys(keys);
}

}  // namespace trireme
