"""One training run on two nodes."""


def test_two_nodes_train_one_run_together(lab, project):
    project.set_run(strategy="{kind: ddp, nodes: 2}")
    done = project.run("train")
    assert done.returncode == 0, done.stderr
    (job,) = project.train_jobs(lab)
    shown = lab.show(job["id"])
    assert (shown["NodeList"], shown["TresPerNode"]) == ("n[1-2]", "gres:gpu:1")
    facts = project.facts()
    assert (facts["processes"], facts["steps"]) == (2, 12)
    assert (project.folder / "results/tiny/logs/train_run/lora.rank1.log").is_file()
