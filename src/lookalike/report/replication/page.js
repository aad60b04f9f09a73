// Nothing to choose: the charts are drawn.
await draw();
