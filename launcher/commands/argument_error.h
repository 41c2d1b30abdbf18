// Messages for arguments that a command does not take, or needs.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace trireme {

/// The error of app.parse(), as one line. For an unknown option or command, names only this word, without the
/// values beside it, and the option, command or key of a job that it may mean.
std::string describe_argument_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace trireme
