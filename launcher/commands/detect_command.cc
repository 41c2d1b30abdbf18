// trireme detect CHECKPOINT PICTURE... --out DIR [--threshold 0.3] [--ema] [--threads N] [--force]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/commands/number_range.h"
#include "launcher/commands/output_file.h"
#include "launcher/families/model_family.h"
#include "launcher/host/machine.h"
#include "launcher/host/standard_output.h"
#include "launcher/job/build.h"
#include "launcher/render/box_drawing.h"
#include "launcher/render/json_text.h"
#include "launcher/train/detection_results.h"
#include "launcher/train/trained_model.h"
#include "parallel/comm/local.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/mapped_file.h"
#include "runtime/data/detection/detection_dataset.h"
#include "runtime/data/image_decode.h"
#include "runtime/data/picture_file.h"
#include "runtime/data/picture_listing.h"
#include "runtime/data/png_encode.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDetectionsFile = "detections.json";

struct DetectArguments {
  std::string checkpoint;
  std::vector<std::string> pictures;  // files and folders
  std::string out;
  double threshold = 0.3;
  int threads = 0;
  bool ema = false;
  bool force = false;
};

/// The pictures and the file that each is drawn to.
struct DetectTask {
  fs::path picture, drawn;
};

std::vector<fs::path> listed_pictures(const DetectArguments& arguments) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const std::string& given : arguments.pictures) {
    if (!fs::is_directory(given, error)) {
      TRIREME_CHECK(fs::is_regular_file(given, error), "{} is not a picture or a folder of pictures", given);
      found.emplace_back(given);
      continue;
    }
    const PictureListing listing = list_pictures(given, FolderBounds(given));
    TRIREME_CHECK(!listing.pictures.empty(), "{} has no pictures (*.jpg, *.jpeg, *.png)", given);
    for (const std::string& name : listing.pictures) found.push_back(fs::path(given) / name);
  }
  return found;
}

/// Throws for a picture whose header cannot be read.
std::vector<DetectTask> planned_tasks(const DetectArguments& arguments, std::int64_t max_pixels) {
  const fs::path out = arguments.out;
  std::error_code error;
  TRIREME_CHECK(!fs::exists(out, error) || fs::is_directory(out, error), "--out {} is a file: name a folder",
                arguments.out);
  std::map<fs::path, fs::path> drawn_from;
  std::vector<DetectTask> tasks;
  for (const fs::path& picture : listed_pictures(arguments)) {
    const fs::path drawn = out / (picture.stem().string() + ".png");
    const auto [known, is_new] = drawn_from.emplace(drawn, picture);
    TRIREME_CHECK(is_new, "{} and {} would both be drawn to {}: give them one at a time, with another --out",
                  known->second.string(), picture.string(), drawn.string());
    const bool is_itself = fs::exists(drawn, error) && fs::equivalent(drawn, picture, error);
    TRIREME_CHECK(!is_itself, "--out {} would replace the picture {}: name another folder", arguments.out,
                  picture.string());
    check_is_new("--out", drawn.string(), arguments.force);
    const MappedFile mapped(picture, "picture");
    read_image_size({.bytes = mapped.bytes(), .name = picture.string(), .max_pixels = max_pixels});
    tasks.push_back({picture, drawn});
  }
  check_is_new("--out", (out / kDetectionsFile).string(), arguments.force);
  return tasks;
}

// Plain SGD has no state: only the parameters take memory.
EngineOptions detection_engine_options(const JobConfig& config, int threads) {
  return {.threads = threads > 0 ? threads : count_cores().usable(),
          .optimizer = {.kind = OptimizerConfig::Kind::kSgd},
          .precision = build_precision(config.precision)};
}

/// Finds objects in single pictures.
class Detector {
 public:
  Detector(Engine& engine, const JobConfig& job, double threshold)
      : engine_(engine),
        view_{
            .side = static_cast<int>(job.data.image_size), .mean = job.data.mean, .stddev = job.data.stddev},
        classes_(job.model.classes),
        max_pixels_(job.data.max_pixels),
        threshold_(threshold) {}

  struct Result {
    std::shared_ptr<const Image> image;  // at full size
    std::vector<Detection> detections;
  };

  /// An evaluation sees the same pixels. Throws BadImage.
  Result detect(const fs::path& path) const {
    const PictureFile file{.path = path, .max_pixels = max_pixels_};
    ImageSize stored;
    const auto seen = load_picture_file(file,
                                        [&](ImageSize size) {
                                          stored = size;
                                          return view_.reduction(size);
                                        },
                                        {});
    HostBatch batch;
    batch.input_shape = {1, view_.side, view_.side, 3};
    batch.input_dtype = DType::kFloat32;
    batch.inputs.resize(static_cast<std::size_t>(batch.input_shape.num_elems()) * sizeof(float));
    view_.draw(*seen, stored,
               {reinterpret_cast<float*>(batch.inputs.data()), batch.inputs.size() / sizeof(float)});
    const std::vector<float> rows = engine_.context().to_host(engine_.infer(batch));
    const auto full = seen->reduction == 1 ? seen : load_picture_file(file, [](ImageSize) { return 1; }, {});
    return {full, picture_detections(rows, classes_, view_.side, stored, threshold_)};
  }

 private:
  Engine& engine_;
  const LetterboxView view_;
  const std::int64_t classes_, max_pixels_;
  const double threshold_;
};

std::string detection_label(const std::vector<std::string>& names, std::int32_t label) {
  const auto index = static_cast<std::size_t>(label);
  return index < names.size() ? names[index] : fmt::format("{}", label);
}

void write_drawn(const DetectTask& task, const Detector::Result& result,
                 const std::vector<std::string>& names) {
  Image image = *result.image;
  for (auto detection = result.detections.rbegin(); detection != result.detections.rend(); ++detection) {
    draw_box(image, detection->box,
             fmt::format("{} {:.2f}", detection_label(names, detection->label), detection->score),
             detection->label);
  }
  const std::vector<std::byte> bytes = encode_png(image);
  write_text_file(task.drawn, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// A file of COCO's format, as of annotations, with scores. The ids of categories are labels.
class DetectionsJson {
 public:
  DetectionsJson(const std::vector<std::string>& names, std::int64_t classes) {
    for (std::int64_t label = 0; label < classes; ++label) {
      json_["categories"].push_back(
          {{"id", label}, {"name", detection_label(names, static_cast<std::int32_t>(label))}});
    }
  }
  void add(const DetectTask& task, const Detector::Result& result) {
    const std::int64_t image_id = ++num_pictures_;
    json_["images"].push_back({{"id", image_id},
                               {"file_name", task.picture.string()},
                               {"width", result.image->size.width},
                               {"height", result.image->size.height}});
    for (const auto& [box, label, score] : result.detections) {
      json_["annotations"].push_back({{"id", ++num_detections_},
                                      {"image_id", image_id},
                                      {"category_id", label},
                                      {"bbox", {box.x, box.y, box.width, box.height}},
                                      {"area", box.width * box.height},
                                      {"iscrowd", 0},
                                      {"score", score}});
    }
  }
  std::string text() const { return json_text(json_) + "\n"; }

 private:
  nlohmann::ordered_json json_ = {{"images", nlohmann::ordered_json::array()},
                                  {"annotations", nlohmann::ordered_json::array()},
                                  {"categories", nlohmann::ordered_json::array()}};
  std::int64_t num_pictures_ = 0, num_detections_ = 0;
};

/// Holds all files or none: removes them after an error.
class OutputFolder {
 public:
  explicit OutputFolder(const std::string& folder) : folder_(folder) {
    std::error_code error;
    is_new_ = !fs::exists(folder_, error);
    fs::create_directories(folder_, error);
    TRIREME_CHECK(!error, "--out {}: cannot make the folder: {}", folder, error.message());
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder() {
    std::error_code error;
    for (const fs::path& file : files_) fs::remove(file, error);
    if (is_new_) fs::remove(folder_, error);
  }

  void add(const fs::path& file) { files_.push_back(file); }
  void keep() {
    files_.clear();
    is_new_ = false;
  }

 private:
  const fs::path folder_;
  bool is_new_ = false;
  std::vector<fs::path> files_;
};

ExitCode run_detect(const DetectArguments& arguments, const LaunchEnvironment& launch) {
  TRIREME_CHECK(launch.num_ranks == 1, "`trireme detect` runs alone: leave out mpirun");
  check_threads(arguments.threads, count_cores(), "--threads");
  const TrainedModel trained = open_trained_model(arguments.checkpoint, arguments.ema);
  const JobConfig job = resolve(trained.config);
  TRIREME_CHECK(family_of(job.model).detects, "{} is of a {}, which detects no objects",
                trained.folder.string(), job.model.name);
  const std::vector<DetectTask> tasks = planned_tasks(arguments, job.data.max_pixels);
  Engine engine(build_blocks(job.model), LocalWorld(1).communicator(0),
                detection_engine_options(job, arguments.threads));
  trained.load(engine, arguments.ema);
  OutputFolder folder(arguments.out);
  const Detector detector(engine, job, arguments.threshold);
  const std::vector<std::string>& names = trained.data.class_names;
  DetectionsJson json(names, job.model.classes);
  std::size_t num_detections = 0;
  for (const DetectTask& task : tasks) {
    const Detector::Result result = detector.detect(task.picture);
    write_drawn(task, result, names);
    folder.add(task.drawn);
    json.add(task, result);
    num_detections += result.detections.size();
    print_line(fmt::format("{}: {} objects", task.drawn.string(), result.detections.size()));
  }
  write_text_file(fs::path(arguments.out) / kDetectionsFile, json.text());
  print_line(fmt::format("{}: {} objects in {} pictures",
                         (fs::path(arguments.out) / kDetectionsFile).string(), num_detections, tasks.size()));
  folder.keep();
  return ExitCode::kDone;
}

}  // namespace

void add_detect_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<DetectArguments>();
  CLI::App* command = app.add_subcommand("detect", "Find objects in pictures with a trained detector");
  command
      ->add_option("CHECKPOINT", arguments->checkpoint,
                   "A checkpoint, or the output folder of a run (its newest checkpoint)")
      ->required();
  command->add_option("PICTURES", arguments->pictures, "JPEG and PNG files, or folders of them")->required();
  command
      ->add_option("--out", arguments->out,
                   "Folder for the pictures with boxes, as PNG files, and detections.json in COCO's format")
      ->required();
  command->add_option("--threshold", arguments->threshold, "Least score of an object (default: 0.3)")
      ->check(finite_range(0.0, 1.0));
  command->add_flag("--ema", arguments->ema,
                    "Use the averages of a run with train.ema instead of the parameters");
  command->add_option("--threads", arguments->threads, "Host threads (default: 0, the cores it may use)")
      ->check(CLI::Range(0, 4096));
  command->add_flag("--force", arguments->force, "Replace files in the folder");
  command->callback([arguments, &chosen] {
    chosen = [arguments](const LaunchEnvironment& launch) { return run_detect(*arguments, launch); };
  });
}

}  // namespace trireme
