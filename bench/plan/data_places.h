// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds models and data sets, and checks that they fit each other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/options/options.h"
#include "datasets/dataset.h"
#include "kernels/nn/model/model.h"
#include "kernels/runtime/shared_memory.h"

namespace ddpbench::bench {

// Takes `name` as a path, or as a name in configs/models of the installed or source tree. Throws
// ConfigError that lists the places searched and names the nearest known model.
std::string find_model(const std::string& name);

// The files of the networks in configs/models of the installed or source tree, sorted.
std::vector<std::string> built_in_models();

// Returns `given` (--data-dir, DDPBENCH_DATA_DIR), else the user's cache directory.
std::string data_directory(const std::string& given);

// The name "auto" becomes the first known data set that fits `model`, else synthetic; mean and
// deviation become the data set's own. Returns a sentence for people when "auto" became synthetic;
// else empty. Throws ConfigError for an unknown name.
std::string resolve_dataset(Options& options, const nn::ModelSpec& model);

// Opens the options' data set, or synthesizes it, in the shape of `model` where the data set takes
// any. Throws ConfigError. REQUIRES: resolve_dataset.
std::unique_ptr<data::DatasetSource> open_data(const Options& options, const nn::ModelSpec& model);
// What the source gives, with a note where that is not all that was published or no real data
// (DatasetInfo::note).
data::DatasetInfo describe_data(const data::DatasetSource& source, const Options& options);
// Returns all samples, decoded, in memory that nobody can write to any more. REQUIRES: the source
// has no file of them (open_decoded). Throws DeviceError where memory does not suffice.
SharedMemory decode_samples(data::DatasetSource& source);
// Says in a sentence for people where the data set comes from.
std::string data_note(const data::DatasetInfo& dataset, const Options& options);

// Reads the header of the file of --load-model. Throws ConfigError where it cannot be read, or
// where its tensors are not those of the network (nn::match_checkpoint). Says for people how names
// are read that are not those of a network here; empty where there is nothing to say.
std::string check_checkpoint(const Options& options, const nn::ModelSpec& model);

// The same note for who starts ranks that check the file themselves: empty where they will refuse
// it, or where it is on their hosts alone.
std::string checkpoint_note(const Options& options, const nn::ModelSpec& model);

// Throws ConfigError when the network does not take images of this shape (naming both shapes), or
// when there are more classes than outputs.
void check_dataset_fits(const nn::ModelSpec& model, const data::DatasetInfo& dataset,
                        const std::string& model_path);
// Throws ConfigError unless the options' mean and deviation have one value, or one a channel, and
// when --until-accuracy is given and the data set has no test samples.
void check_data_options(const Options& options, const data::DatasetInfo& dataset);

}  // namespace ddpbench::bench
