// Shared code of image families.
#pragma once

#include <string>

#include "launcher/config/config.h"

namespace trireme {

/// The published shape of model.size; supplies the values that a job does not set.
struct PublishedShape {
  std::int64_t hidden, heads;
};

/// model.classes of a job that does not give the key: the class folders of data.train; `published` if there
/// are none, or if the head of model.init_from determines the classes.
std::int64_t default_classes(const JobConfig& config, std::int64_t published);

/// Throws Error(kInvalidInput) if a model has neither a size nor layers, width and heads, if the heads do not
/// divide the width, or for model.tensor_chunks that check_tensor_chunks() refuses.
void check_image_shape(const ModelSection& model, const PublishedShape& published);

/// Fills in model.image_size and data.image_size. A job may set only one of them, or neither, which means
/// `published`. Throws Error(kInvalidInput) if they differ, because position embeddings are for one size.
void fill_in_image_size(JobConfig& config, std::int64_t published);

/// "12 layers, 768 wide, 12 heads, MLP 3072, 1000 classes" and tensor chunks; part of ModelFamily::describe.
std::string image_transformer_text(const ModelSection& model);

}  // namespace trireme
