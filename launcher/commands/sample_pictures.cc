#include "launcher/commands/sample_pictures.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "launcher/commands/output_file.h"
#include "launcher/data/diffusion_data.h"
#include "launcher/host/standard_output.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/float_data.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "runtime/data/png_encode.h"

namespace trireme {
namespace {

struct MethodWord {
  std::string_view word;
  DenoisingMethod method;
  std::int64_t num_steps;
};
constexpr MethodWord kMethods[] = {{"ddpm", DenoisingMethod::kDdpm, 1000},
                                   {"ddim", DenoisingMethod::kDdim, 50},
                                   {"dpm-solver++", DenoisingMethod::kDpmSolver, 50}};

/// The condition of each picture, and the condition that stands for none.
struct Conditions {
  std::vector<float> rows, none;  // [N, L, D], [L, D]
};

Conditions read_conditions(const PictureArguments& arguments, const ModelSection& model) {
  if (model.condition_width == 0) return {};
  const SafetensorsReader file(arguments.condition);
  const auto elems = static_cast<std::size_t>(model.seq_len * model.condition_width);
  const auto read = [&](const char* name) {
    const SafetensorsTensor& tensor = file.tensor(name);
    // `condition` is [N, L, D], `null_condition` [L, D].
    const std::vector<std::int64_t>& shape = tensor.shape;
    const bool fits = shape.size() >= 2 && shape[shape.size() - 2] == model.seq_len &&
                      shape.back() == model.condition_width;
    TRIREME_CHECK(
        is_float_data(tensor) && tensor.num_elems > 0 && fits,
        "--condition {}: `{}` is {} of the shape [{}], and the model needs [{}, {}] for a picture, as "
        "F32, F16 or BF16",
        arguments.condition, name, tensor.dtype, fmt::join(shape, ", "), model.seq_len,
        model.condition_width);
    std::vector<float> values(tensor.num_elems);
    copy_as_floats(tensor, 0, values);
    return values;
  };
  Conditions conditions{.rows = read("condition"), .none = std::vector<float>(elems, 0.0f)};
  if (file.has("null_condition")) conditions.none = read("null_condition");
  return conditions;
}

/// Predictions of a network for a range of pictures.
class PictureDenoiser {
 public:
  PictureDenoiser(Engine& engine, const PictureArguments& arguments, const JobConfig& job)
      : engine_(engine),
        arguments_(arguments),
        job_(job),
        conditions_(read_conditions(arguments, job.model)),
        shape_{job.data.image_size, job.data.image_size, job.model.channels} {}

  const Shape& shape() const { return shape_; }

  std::vector<float> predict(std::span<const float> x, std::int64_t timestep, std::int64_t first) const {
    std::vector<float> with = run(x, timestep, first, true);
    if (arguments_.guidance == 1.0) return with;
    return guided(with, run(x, timestep, first, false), arguments_.guidance);
  }

 private:
  std::vector<float> run(std::span<const float> x, std::int64_t timestep, std::int64_t first,
                         bool conditioned) const {
    const ModelSection& model = job_.model;
    const std::int64_t count = static_cast<std::int64_t>(x.size()) / shape_.num_elems();
    HostBatch batch;
    batch.input_shape = shape_.batched(count);
    batch.input_dtype = DType::kFloat32;
    const auto bytes = std::as_bytes(x);
    batch.inputs.assign(bytes.begin(), bytes.end());
    batch.timesteps.assign(static_cast<std::size_t>(count), static_cast<float>(timestep));
    if (model.condition_width > 0) batch.condition_shape = {count, model.seq_len, model.condition_width};
    for (std::int64_t picture = first; picture < first + count; ++picture) {
      if (model.classes > 0) batch.classes.push_back(conditioned ? class_of(picture) : none());
      if (model.condition_width > 0) append_condition(picture, conditioned, batch.condition);
    }
    return engine_.context().to_host(engine_.infer(batch));
  }

  std::int32_t none() const { return static_cast<std::int32_t>(job_.model.classes - 1); }
  std::int32_t class_of(std::int64_t picture) const {
    if (arguments_.picture_class >= 0) return static_cast<std::int32_t>(arguments_.picture_class);
    const std::int64_t classes = job_.model.classes - (job_.diffusion.class_dropout > 0 ? 1 : 0);
    return static_cast<std::int32_t>(picture % classes);
  }
  void append_condition(std::int64_t picture, bool conditioned, std::vector<float>& out) const {
    if (!conditioned) {
      out.insert(out.end(), conditions_.none.begin(), conditions_.none.end());
      return;
    }
    const std::size_t elems = conditions_.none.size(), rows = conditions_.rows.size() / elems;
    const auto at = conditions_.rows.begin() +
                    static_cast<std::ptrdiff_t>(static_cast<std::size_t>(picture) % rows * elems);
    out.insert(out.end(), at, at + static_cast<std::ptrdiff_t>(elems));
  }

  Engine& engine_;
  const PictureArguments& arguments_;
  const JobConfig& job_;
  const Conditions conditions_;
  const Shape shape_;
};

void write_image(const std::filesystem::path& path, const Image& image) {
  const std::vector<std::byte> bytes = encode_png(image);
  write_text_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void write_pictures(const PictureArguments& arguments, std::span<const float> samples, const Shape& shape) {
  std::vector<Image> images;
  const auto elems = static_cast<std::size_t>(shape.num_elems());
  const ImageSize size{.width = static_cast<int>(shape[1]), .height = static_cast<int>(shape[0])};
  for (std::size_t i = 0; i * elems < samples.size(); ++i) {
    images.push_back(image_of(samples.subspan(i * elems, elems), size));
  }
  if (!arguments.folder.empty()) {
    std::filesystem::create_directories(arguments.folder);
    for (std::size_t i = 0; i < images.size(); ++i) {
      write_image(std::filesystem::path(arguments.folder) / fmt::format("{:05}.png", i), images[i]);
    }
  }
  if (arguments.grid.empty()) return;
  const int columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(images.size()))));
  write_image(arguments.grid, grid_of(images, columns));
}

void check_outputs(const PictureArguments& arguments) {
  TRIREME_CHECK(arguments.grid.empty() || std::filesystem::path(arguments.grid).extension() == ".png",
                "--grid {}: pictures are PNG files: give a name that ends in .png", arguments.grid);
  for (const auto& [option, file] : {std::pair("--grid", arguments.grid), {"--latents", arguments.latents}}) {
    if (!file.empty()) check_can_be_written(option, file);
  }
  std::error_code error;
  TRIREME_CHECK(arguments.folder.empty() || !std::filesystem::exists(arguments.folder, error) ||
                    std::filesystem::is_directory(arguments.folder, error),
                "--out {} is a file: give a folder, or --grid for one picture of all", arguments.folder);
}

}  // namespace

void check_picture_arguments(const PictureArguments& arguments, const JobConfig& job) {
  const ModelSection& model = job.model;
  TRIREME_CHECK(arguments.count > 0, "a {} makes pictures: say how many with --images", model.name);
  const bool writes = !arguments.grid.empty() || !arguments.folder.empty();
  TRIREME_CHECK(writes || !arguments.latents.empty(),
                "--images {}: say where to write them, with --grid FILE.png, --out FOLDER or --latents FILE",
                arguments.count);
  TRIREME_CHECK(
      !writes || model.channels == 3,
      "--grid and --out write pictures of 3 channels, and model.channels = {}: write --latents, and "
      "decode them (examples/latents.py)",
      model.channels);
  TRIREME_CHECK(arguments.guidance == 1.0 || model.classes > 0 || model.condition_width > 0,
                "--guidance {}: the model has no classes and no condition to be guided by",
                arguments.guidance);
  TRIREME_CHECK(arguments.guidance == 1.0 || job.diffusion.class_dropout > 0,
                "--guidance {}: diffusion.class_dropout is 0, so the model has no prediction without a {}. "
                "Train with 0.1; "
                "a folder of diffusers does not record the key, so sample the run instead",
                arguments.guidance, model.condition_width > 0 ? "condition" : "class");
  TRIREME_CHECK(arguments.picture_class < 0 || model.classes > 0,
                "--class {}: the model has no classes: leave the option out", arguments.picture_class);
  TRIREME_CHECK(arguments.picture_class < std::max<std::int64_t>(model.classes, 1),
                "--class {}: the model has {} classes, counted from 0", arguments.picture_class,
                model.classes);
  TRIREME_CHECK(
      (model.condition_width > 0) == !arguments.condition.empty(),
      "--condition \"{}\": the model's condition has the width {}: {}", arguments.condition,
      model.condition_width,
      model.condition_width > 0 ? "give a file with the tensor `condition`" : "leave the option out");
  check_outputs(arguments);
}

void sample_pictures(Engine& engine, const PictureArguments& arguments, const JobConfig& job,
                     std::uint64_t seed) {
  const MethodWord& method = *std::ranges::find(kMethods, arguments.method, &MethodWord::word);
  const DenoisingOptions options{
      .method = method.method,
      .num_steps = arguments.num_steps > 0 ? arguments.num_steps : method.num_steps,
      .prediction = job.diffusion.prediction,
      .clips = job.model.channels == 3 && job.data.kind != DataKind::kLatents,
      .steps_offset = job.diffusion.steps_offset,
      .set_alpha_to_one = job.diffusion.set_alpha_to_one};
  const NoiseSchedule schedule(noise_schedule_of(job.diffusion));
  const PictureDenoiser denoiser(engine, arguments, job);
  std::vector<float> samples;
  for (std::int64_t first = 0; first < arguments.count; first += job.train.micro_batch) {
    const std::int64_t count = std::min(job.train.micro_batch, arguments.count - first);
    const Denoiser predict = [&](std::span<const float> x, std::int64_t timestep) {
      return denoiser.predict(x, timestep, first);
    };
    const std::vector<float> some =
        denoise(schedule, options, predict, seed, first, count, denoiser.shape().num_elems());
    samples.insert(samples.end(), some.begin(), some.end());
  }
  if (!arguments.grid.empty() || !arguments.folder.empty()) {
    write_pictures(arguments, samples, denoiser.shape());
  }
  if (!arguments.latents.empty()) {
    const Shape& shape = denoiser.shape();
    SafetensorsWriter writer(
        arguments.latents,
        {{.name = "latents", .dtype = "F32", .shape = {arguments.count, shape[0], shape[1], shape[2]}}});
    writer.append(std::span<const float>(samples));
    writer.commit();
  }
  for (const std::string& file : {arguments.grid, arguments.folder, arguments.latents}) {
    if (!file.empty())
      print_line(fmt::format("{}: {} samples, {} steps of {}", file, arguments.count, options.num_steps,
                             method.word));
  }
}

}  // namespace trireme
