// The module trireme._core: what the package `trireme` is made of. Its classes are private; the package
// documents the public ones.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/commands/cli.h"
#include "launcher/data/token_data.h"
#include "launcher/host/build_info.h"
#include "launcher/host/env.h"
#include "launcher/host/error_report.h"
#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "launcher/python/block_library.h"
#include "launcher/python/job_plan.h"
#include "launcher/python/python_session.h"
#include "runtime/data/tokenizer.h"

namespace nb = nanobind;

namespace trireme {
namespace {

void translate(const std::exception_ptr& failure, void*) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    set_python_error(error);
  } catch (const std::filesystem::filesystem_error& error) {
    set_python_error(as_error(error));
  }
}

JobConfig read_job(const std::string& text, const std::string& source,
                   const std::vector<std::string>& overrides) {
  return resolve(parse_config(text, source, overrides));
}

/// `name` as in load_tokenizer(); null: the tokenizer of the job's prepared data.
std::unique_ptr<Tokenizer> job_tokenizer(const JobConfig& config, const std::optional<std::string>& name) {
  if (name) return load_tokenizer(*name);
  const auto data = has_token_files(config.data.kind) ? find_prepared_data(config.data.train) : std::nullopt;
  TRIREME_CHECK(data,
                "a text needs a tokenizer, and data.train = \"{}\" has none: pass tokenizer=\"bytes\", or "
                "the path of one",
                config.data.train);
  return load_saved_tokenizer(data->info.tokenizer, data->folder);
}

void bind_tokenizer(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer")
      .def_static("load", &job_tokenizer, nb::arg("job"), nb::arg("name").none())
      .def_prop_ro("vocab_size", &Tokenizer::vocab_size)
      .def("encode", &Tokenizer::encode, nb::arg("text"))
      .def(
          "decode",
          [](const Tokenizer& self, const std::vector<std::int32_t>& tokens) {
            const std::string text = self.decode(tokens);
            return nb::bytes(text.data(), text.size());
          },
          nb::arg("tokens"))
      .def("document_separator", &Tokenizer::document_separator);
}

nb::tuple shape_tuple(const Shape& shape) {
  nb::list dims;
  for (int i = 0; i < shape.rank(); ++i) dims.append(shape.dim(i));
  return nb::tuple(dims);
}

void bind_job(nb::module_& module) {
  nb::class_<OwnBlocks>(module, "Blocks")
      .def_static("load", &load_blocks, nb::arg("path"), nb::arg("options"));
  nb::class_<JobConfig>(module, "Job")
      .def_static("read", &read_job, nb::arg("text"), nb::arg("source"), nb::arg("overrides"))
      .def("to_toml", [](const JobConfig& config) { return to_toml(config); })
      .def("input",
           [](const JobConfig& config) {
             const SampleSpec spec = sample_spec(config);
             return nb::make_tuple(shape_tuple(spec.input), numpy_name(spec.input_dtype));
           })
      .def("target", [](const JobConfig& config) {
        const SampleSpec spec = sample_spec(config);
        return nb::make_tuple(shape_tuple(spec.target), numpy_name(spec.target_dtype));
      });
  module.def(
      "plan_json",
      [](const JobConfig& config, int ranks, int ranks_per_machine, const std::optional<std::string>& cluster,
         const std::string& device) {
        return plan_json(config, {.num_ranks = ranks,
                                  .ranks_per_machine = ranks_per_machine,
                                  .cluster = cluster,
                                  .device = device});
      },
      nb::arg("job"), nb::arg("ranks"), nb::arg("ranks_per_machine"), nb::arg("cluster").none(),
      nb::arg("device"), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace
}  // namespace trireme

NB_MODULE(_core, module) {
  nb::register_exception_translator(trireme::translate);
  trireme::set_up_log(trireme::LaunchEnvironment{});
  module.attr("version") = trireme::build_info::kVersion;
  trireme::bind_job(module);
  trireme::bind_tokenizer(module);
  trireme::bind_session(module);
}
