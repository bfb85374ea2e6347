// Browsers start no worker for a page from disk. There, a hidden frame takes the search worker's place: it runs
// the worker's script, and messages go to and fro as events.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.waiting = [];
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      script.onload = () => {
        for (const data of this.waiting) this.deliver(data);
        this.waiting = null;
      };
      frame.contentDocument.body.appendChild(script);
    }
    deliver(data) {
      this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(data);
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
