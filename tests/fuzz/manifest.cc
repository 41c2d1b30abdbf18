// The manifest of a checkpoint, and the trainer's data in it.
#include "runtime/checkpoint/manifest.h"

#include "launcher/keys/job_file.h"
#include "launcher/state/run_state.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/checkpoint/json_file.h"
#include "tests/fuzz/json_changes.h"
#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

/// A checkpoint folder with its own file, and links to a file outside.
const std::filesystem::path& checkpoint_folder() {
  static const std::filesystem::path folder = [] {
    const std::filesystem::path made = scratch_folder() / "step-12";
    testing::write_file(made / "own", "weights");
    testing::write_file(scratch_folder() / "foreign", "weights");
    std::filesystem::create_symlink("../foreign", made / "link");
    std::filesystem::create_directory_symlink("..", made / "out");
    return made;
  }();
  return folder;
}

void read(std::string_view text) {
  const std::filesystem::path& folder = checkpoint_folder();
  replace_file(folder / Manifest::kFileName, text);
  taken([&] {
    const Checkpoint checkpoint{.folder = folder, .manifest = read_manifest(folder)};
    require(!checkpoint.manifest.files.empty(), "a manifest without files is taken");
    for (const CheckpointFile& file : checkpoint.manifest.files) {
      const std::string path = (folder / file.name).lexically_normal().string();
      require(path.starts_with(folder.string() + "/"), "a name leads out of the folder");
    }
    for (const Verify verify : {Verify::kSizes, Verify::kChecksums}) {
      if (!taken([&] { verify_files(checkpoint.manifest, checkpoint.folder, verify); })) continue;
      for (const CheckpointFile& file : checkpoint.manifest.files)
        require(lies_in(folder / file.name, folder), "a file that is verified is not in the folder");
    }
    read_run_state(checkpoint);
  });
}

/// Adds the matching checksum; otherwise hardly any input would pass that check.
std::string with_checksum(nlohmann::json manifest) {
  constexpr const char* kOwnChecksum = "manifest_checksum";
  manifest.erase(kOwnChecksum);
  const std::string text = manifest.dump();
  ByteHash hash;
  hash.update(std::as_bytes(std::span(text)));
  manifest[kOwnChecksum] = fmt::format("{:016x}", hash.value());
  return manifest.dump();
}

int fuzz_manifest(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = as_text(data, size);
  read(text);
  nlohmann::json manifest;
  if (taken([&] { manifest = parse_json(text); }) && manifest.is_object()) read(with_checksum(manifest));
  return 0;
}

std::vector<std::string> manifests() {
  const JobConfig config =
      parse_config("[model]\nsize = \"124m\"\n[data]\nkind = \"synthetic\"\n", "job.toml", {});
  const nlohmann::json content =
      to_content({.loss = 2.5,
                  .evaluation_due = true,
                  .state_hash = "0123456789abcdef",
                  .loss_scale = LossScaleState{.scale = 65536.0f, .clean_steps = 3, .updates = 7},
                  .config = config,
                  .data = {.samples = 384,
                           .pass_samples = 100,
                           .train = DataFingerprint{.contents = "1800 tokens", .hash = 5},
                           .tokenizer = {.kind = "bytes", .vocab_size = 256},
                           .class_names = {"cat", "dog"}},
                  .spikes = SpikeState{.loss = {.values = {2.5}}, .grad_norm = {.values = {1.5}}}});
  const auto written = [](const Manifest& manifest) {
    write_manifest(manifest, checkpoint_folder());
    return testing::read_file(checkpoint_folder() / Manifest::kFileName);
  };
  const CheckpointFile own = describe_file(checkpoint_folder() / "own");
  CheckpointFile link = own;
  link.name = "link";
  return {written({.step = 12,
                   .files = {{"a.safetensors", 100, 0x123456789abcdef0}, {"b", 0, 5}},
                   .content = content}),
          written({.step = 0, .files = {{"model.safetensors", 1, 7}}, .content = {{"loss", 1}}}),
          written({.step = 12, .files = {own}, .content = content}),
          written({.step = 12, .files = {own, link}, .content = content})};
}

void change_manifest(std::string& text, Random& random) {
  static const std::string absolute = "\"" + (scratch_folder() / "foreign").string() + "\"";
  const std::string_view words[] = {"\"own\"",
                                    "\"link\"",
                                    "\"../foreign\"",
                                    "\"out/foreign\"",
                                    "\"./own\"",
                                    absolute,
                                    "\"out/step-12/own\"",
                                    "\"own/../../foreign\"",
                                    "\"link\\u0000\"",
                                    "[]",
                                    "7"};
  change_json(text, random, words);
}

}  // namespace

const Reader kManifest{"manifest", fuzz_manifest, manifests, change_manifest, 2};

}  // namespace trireme::fuzz
