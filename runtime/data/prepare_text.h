// From text to token shards: what `trireme data text` does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/data/dataset_info.h"
#include "runtime/data/text_sources.h"

namespace trireme {

struct PrepareTextOptions {
  std::vector<std::filesystem::path> inputs;  // files and folders (see find_text)
  std::filesystem::path output;               // folder; made where missing
  std::string tokenizer = "bytes";            // as load_tokenizer takes it
  double eval_fraction = 0.1;                 // the last part of the stream, 0 <= f < 1; 0 writes no eval.bin
  bool json_as_text = false;                  // JSON records are refused otherwise (see find_text)
};

struct PrepareTextProgress {
  std::int64_t bytes_done = 0, bytes_total = 0;
  std::int64_t num_tokens = 0;  // so far
};

struct PrepareTextSummary {
  DatasetInfo info;
  TextNotes notes;
  /// False when the start of the text did not come back from the tokenizer unchanged: the model normalises
  /// (drops line ends, for instance).
  bool lossless = true;
};

/// Writes train.bin, eval.bin, tokenizer.model (for sentencepiece) and dataset.json into `output`. The text
/// files, without their byte order marks and with their line ends as they are, are joined by the tokenizer's
/// document separator; of n tokens, the first floor(n * (1 - f)) are for
/// training. Nothing half-written stays behind a failure; results of an earlier run are replaced.
/// `progress` is called about once a megabyte. Throws Error(kInvalidInput) when an input is missing, there is
/// no text, the vocabulary does not fit 16 bits or the output folder is not writable; Error(kRuntime) when
/// the disk is full.
PrepareTextSummary prepare_text(const PrepareTextOptions& options,
                                const std::function<void(const PrepareTextProgress&)>& progress = {});

}  // namespace trireme
