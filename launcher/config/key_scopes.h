// Which jobs a key of the configuration is for: in others it would have no effect, and is refused.
//
// By model, not by data.kind: `--set data.kind=synthetic` turns a job into a measurement of its speed.
#pragma once

#include <string>

#include "launcher/config/config_keys.h"

namespace trireme {

KeyScope for_gpts();
KeyScope for_resnets();
/// data.crop = `crop`.
KeyScope for_crop(ViewOptions::Crop crop);

}  // namespace trireme
