# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch counterpart of ddpbench; pytorch_report.py beside this folder is its command line.

Without PyTorch: errors, options, environment, figures, launch, report. With it, in the ranks'
processes only: network, feed, steps, training, rank.
"""
