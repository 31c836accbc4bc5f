// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Where models and data sets are looked for, and whether they fit each other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/options/options.h"
#include "datasets/dataset.h"
#include "kernels/nn/model/model.h"

namespace ddpbench::bench {

// `name` as a path, or as a name in configs/models of the installed or source tree. Throws
// ConfigError that lists where it looked and names the nearest known model.
std::string find_model(const std::string& name);

// `given` (--data-dir, DDPBENCH_DATA_DIR) alone, else the user's cache directory.
std::vector<std::string> data_directories(const std::string& given);

// The data set of the options, from those directories or synthesized. Throws ConfigError.
std::unique_ptr<data::DatasetSource> open_data(const Options& options);
// Where it comes from, in a sentence for people.
std::string data_note(const data::DatasetInfo& dataset, const Options& options);

// Throws ConfigError naming both shapes when the images are not what the network takes, or there
// are more classes than outputs.
void check_dataset_fits(const nn::ModelSpec& model, const data::DatasetInfo& dataset,
                        const std::string& model_path);

}  // namespace ddpbench::bench
